// SPDX-License-Identifier: BSD-3-Clause
// The keys of congestion control in the device string of a `roce` device, and the preset that they
// select.
#pragma once

#include "lib/roce/engine.hpp"
#include "providers/software/controller_keys.hpp"

namespace weft::roce_provider {

class CongestionKeys {
 public:
  // `config`: the values of keys that are not given.
  explicit CongestionKeys(const roce::EngineConfig& config);
  CongestionKeys(const CongestionKeys&) = delete;
  CongestionKeys& operator=(const CongestionKeys&) = delete;

  // Takes the keys "cc.PARAMETER" out of `spec`; append_to() adds the others.
  Result<void> take_parameters(verbs::DeviceSpec& spec) { return keys_.take_parameters(spec); }
  // cc, cc_line_mbps, cc_rtt_us, cnp_interval_us, cnp_dscp, pacing_quantum_us, telemetry. They
  // write into this object.
  void append_to(std::vector<software::OwnKey>& own);
  // Requested, or needed by the controller.
  const bool& telemetry() const noexcept { return telemetry_; }
  // Checks that the port `name` supports telemetry if that was requested explicitly.
  Result<void> check(const transport::Capabilities& port, std::string_view name) const;
  Result<void> apply(roce::EngineConfig& config) const;

 private:
  Result<void> examine(std::string_view name, const congestion::Kind& kind);

  software::ControllerKeys keys_;
  std::optional<bool> requested_;  // telemetry=
  bool needed_ = false;            // by the controller
  bool telemetry_ = false;
  uint32_t cnp_interval_us_;
  uint32_t cnp_dscp_;
  uint32_t pacing_quantum_us_;
};

}  // namespace weft::roce_provider
