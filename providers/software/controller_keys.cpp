// SPDX-License-Identifier: BSD-3-Clause
// See controller_keys.hpp.
#include "providers/software/controller_keys.hpp"

#include <algorithm>
#include <charconv>

namespace weft::software {

Result<void> ControllerKeys::take_parameters(verbs::DeviceSpec& spec) {
  for (const auto& [name, text] : verbs::take_layer(spec.options, "cc")) {
    double value = 0;
    const char* const end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || at != end)
      return Error{Code::invalid_argument, "cc." + name + "=" + text + ": must be a number"};
    parameters_.emplace_back(name, value);
  }
  return {};
}

void ControllerKeys::append_to(std::vector<OwnKey>& own, std::vector<std::string> also) {
  also_ = std::move(also);
  own.push_back({"cc", [this](const std::string& name) -> Result<void> {
                   name_ = name;
                   if (std::find(also_.begin(), also_.end(), name) != also_.end()) return {};
                   bool windowed = false;
                   const Result<const congestion::Kind*> kind =
                       congestion::find_kind(name, &windowed);
                   if (!kind) return kind.error();
                   // A path becomes the name of the controller that was loaded.
                   // A path becomes the name of the controller that was loaded.
                   name_ = congestion::full_name(**kind, windowed);
                   return validate_(name_, **kind);
                 }});
  own.push_back(number_key("cc_line_mbps", line_mbps_, 1, 1'000'000));
  own.push_back(number_key("cc_rtt_us", rtt_us_, 1, 100'000));
}

congestion::Conditions ControllerKeys::conditions() const noexcept {
  return {.line = Rate{int64_t{line_mbps_} * links_ * 1'000'000},
          .rtt = Duration::from_us(rtt_us_),
          .network = {}};
}

Result<std::optional<congestion::Preset>> ControllerKeys::preset(
    const congestion::Conditions& conditions) const {
  const bool none = name_.empty() || std::find(also_.begin(), also_.end(), name_) != also_.end();
  if (none && !parameters_.empty())
    return Error{Code::invalid_argument,
                 "cc." + parameters_.front().first + " needs a controller: add cc=NAME"};
  if (none) return std::optional<congestion::Preset>();
  std::vector<congestion::Setting> settings;
  for (const auto& [name, value] : parameters_) settings.push_back({name, value});
  const Result<congestion::Preset> preset = congestion::make_preset(name_, conditions, settings);
  if (!preset) return preset.error();
  return std::optional<congestion::Preset>(*preset);
}

}  // namespace weft::software
