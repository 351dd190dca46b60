// SPDX-License-Identifier: BSD-3-Clause
// The keys of a device string that select a congestion controller: cc, cc_line_mbps, cc_rtt_us and
// cc.PARAMETER, and the preset that they define. A provider rejects controllers whose signals it
// does not have.
#pragma once

#include <optional>

#include "lib/congestion/registry.hpp"
#include "lib/verbs/device_spec.hpp"
#include "providers/software/open.hpp"

namespace weft::software {

class ControllerKeys {
 public:
  // Returns an error if the provider does not support the controller.
  using Validate = std::function<Result<void>(std::string_view name, const congestion::Kind&)>;

  ControllerKeys(uint32_t line_mbps, uint32_t rtt_us, Validate validate)
      : line_mbps_(line_mbps), rtt_us_(rtt_us), validate_(std::move(validate)) {}

  // Removes the keys "cc.PARAMETER" from `spec`; append_to() handles the others.
  Result<void> take_parameters(verbs::DeviceSpec& spec);
  // Appends keys that write into this object. `also`: further values of `cc`, of the provider.
  void append_to(std::vector<OwnKey>& own, std::vector<std::string> also = {});
  // The value of cc; "" if it is not set.
  const std::string& name() const noexcept { return name_; }
  void choose(std::string name) { name_ = std::move(name); }
  // The preset; none without a controller. `conditions`: those of conditions(), possibly extended.
  Result<std::optional<congestion::Preset>> preset(const congestion::Conditions& conditions) const;
  congestion::Conditions conditions() const noexcept;
  // The number of links of the device, each of the line rate cc_line_mbps.
  void bundle(uint32_t links) { links_ = links; }

 private:
  std::string name_;
  std::vector<std::string> also_;
  std::vector<std::pair<std::string, double>> parameters_;
  uint32_t line_mbps_;
  uint32_t rtt_us_;
  uint32_t links_ = 1;
  Validate validate_;
};

}  // namespace weft::software
