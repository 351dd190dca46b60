// SPDX-License-Identifier: BSD-3-Clause
// The list of controllers, and the making of presets.
#include "lib/congestion/registry.hpp"

#include <algorithm>
#include <cmath>

#include "lib/congestion/kinds.hpp"

namespace weft::congestion {
namespace {

constexpr const Kind* kKinds[] = {&kNone,  &kDcqcnPaper, &kDcqcnNic,      &kDcqcnHpccsim,
                                  &kHpcc,  &kHpccPint,   &kTimely,        &kTimelyPatched,
                                  &kSwift, &kPowerTcp,   &kThetaPowerTcp, &kDctcp,
                                  &kNscc,  &kRccc,       &kNsccRccc};
constexpr std::string_view kSuffix = "+win";

std::string list_of_names() {
  std::string text;
  for (const Kind* kind : kKinds) text += (text.empty() ? "" : ", ") + std::string(kind->name);
  return text;
}

Result<void> apply(Preset& preset, const Setting& setting) {
  const Kind& kind = *preset.kind;
  std::string valid;
  for (size_t i = 0; i < kind.parameters.size(); ++i) {
    if (kind.parameters[i].name == setting.parameter) {
      if (!std::isfinite(setting.value) || setting.value < 0)
        return Error{Code::invalid_argument, std::string(kind.name) + "." +
                                                 std::string(setting.parameter) +
                                                 " must be a finite number, 0 or more"};
      preset.values[i] = setting.value;
      return {};
    }
    valid += (valid.empty() ? "" : ", ") + std::string(kind.parameters[i].name);
  }
  return Error{Code::invalid_argument, std::string(kind.name) + " has no parameter '" +
                                           std::string(setting.parameter) + "'; it has " + valid};
}

}  // namespace

std::span<const Kind* const> kinds() noexcept { return kKinds; }

Result<const Kind*> find_kind(std::string_view name, bool* with_window) {
  *with_window = name.ends_with(kSuffix);
  const std::string_view base = *with_window ? name.substr(0, name.size() - kSuffix.size()) : name;
  for (const Kind* kind : kKinds)
    if (kind->name == base) return kind;
  return Error{Code::not_found, "no controller '" + std::string(name) + "'; there are " +
                                    list_of_names() + ", each also with the suffix +win"};
}

Result<Preset> make_preset(std::string_view name, const Conditions& conditions,
                           std::span<const Setting> settings) {
  Preset preset;
  bool with_window = false;
  Result<const Kind*> kind = find_kind(name, &with_window);
  if (!kind) return kind.error();
  if (conditions.line.bits_per_second <= 0 || conditions.rtt.ps <= 0)
    return Error{Code::invalid_argument, "a controller needs the line rate and the base RTT"};
  preset.kind = *kind;
  preset.windowed = with_window || preset.kind->windowed;
  for (size_t i = 0; i < preset.kind->parameters.size(); ++i)
    preset.values[i] = preset.kind->parameters[i].value;
  for (const Setting& setting : settings) {
    Result<void> applied = apply(preset, setting);
    if (!applied) return applied.error();
  }
  preset.line_rate = static_cast<double>(conditions.line.bits_per_second);
  // A default least rate is for fast lines; on a slow one it would leave nothing to control.
  double least = preset[kMinRate] * 1e6;
  const bool chosen = std::any_of(settings.begin(), settings.end(), [&preset](const Setting& s) {
    return s.parameter == preset.kind->parameters[kMinRate].name;
  });
  if (!chosen) least = std::min(least, preset.line_rate / 10);
  preset.min_rate = std::clamp(least, 1.0, preset.line_rate);
  preset.base_rtt_ns = static_cast<double>(conditions.rtt.ps) / 1000;
  const Rate network =
      conditions.network.bits_per_second > 0 ? conditions.network : conditions.line;
  preset.window_bytes = preset.base_rtt_ns * static_cast<double>(network.bits_per_second) / 8e9;
  return preset;
}

}  // namespace weft::congestion
