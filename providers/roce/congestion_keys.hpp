// SPDX-License-Identifier: BSD-3-Clause
// The keys of congestion control in a device string, and the preset that comes of them.
#pragma once

#include "lib/congestion/registry.hpp"
#include "lib/engine/engine.hpp"
#include "lib/verbs/device_spec.hpp"
#include "providers/software/open.hpp"

namespace weft::roce {

class CongestionKeys {
 public:
  // Takes the keys "cc.PARAMETER" out of `spec`; the others come by append_to().
  Result<void> take_parameters(verbs::DeviceSpec& spec);
  // cc, cc_line_mbps, cc_rtt_us, cnp_interval_us, pacing_quantum_us, telemetry. They write into
  // this object.
  void append_to(std::vector<software::OwnKey>& own);
  // Asked for, or needed by the controller.
  const bool& telemetry() const noexcept { return telemetry_; }
  Result<void> apply(engine::EngineConfig& config) const;

 private:
  Result<void> choose(const std::string& name);

  std::string name_;
  std::vector<std::pair<std::string, double>> parameters_;
  bool telemetry_ = false;
  uint32_t line_mbps_ = 10'000;
  uint32_t rtt_us_ = 50;
  uint32_t cnp_interval_us_ = 50;
  uint32_t pacing_quantum_us_ = 10;
};

}  // namespace weft::roce
