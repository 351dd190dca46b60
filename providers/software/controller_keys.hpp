// SPDX-License-Identifier: BSD-3-Clause
// The keys that choose a congestion controller in a device string, and the preset that comes of
// them: cc, cc_line_mbps, cc_rtt_us and cc.PARAMETER. A provider says what it cannot feed.
#pragma once

#include <optional>

#include "lib/congestion/registry.hpp"
#include "lib/verbs/device_spec.hpp"
#include "providers/software/open.hpp"

namespace weft::software {

class ControllerKeys {
 public:
  // Says why a provider cannot have a controller, or nothing.
  using Objection = std::function<Result<void>(std::string_view name, const congestion::Kind&)>;

  ControllerKeys(uint32_t line_mbps, uint32_t rtt_us, Objection objection)
      : line_mbps_(line_mbps), rtt_us_(rtt_us), objection_(std::move(objection)) {}

  // Takes the keys "cc.PARAMETER" out of `spec`; the others come by append_to().
  Result<void> take_parameters(verbs::DeviceSpec& spec);
  // The keys write into this object. `also`: words that `cc` may be besides, for the provider.
  void append_to(std::vector<OwnKey>& own, std::vector<std::string> also = {});
  // What cc says; "" if it is not there.
  const std::string& name() const noexcept { return name_; }
  void choose(std::string name) { name_ = std::move(name); }
  // None without a controller. `conditions`: those of conditions(), with more that is known.
  Result<std::optional<congestion::Preset>> preset(const congestion::Conditions& conditions) const;
  congestion::Conditions conditions() const noexcept;
  // The device has so many links, each of the line rate that is given.
  void bundle(uint32_t links) { links_ = links; }

 private:
  std::string name_;
  std::vector<std::string> also_;
  std::vector<std::pair<std::string, double>> parameters_;
  uint32_t line_mbps_;
  uint32_t rtt_us_;
  uint32_t links_ = 1;
  Objection objection_;
};

}  // namespace weft::software
