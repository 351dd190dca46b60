// SPDX-License-Identifier: BSD-3-Clause
// The list of controllers, and the making of presets.
#include "lib/congestion/registry.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <mutex>
#include <optional>

#include "lib/base/check.hpp"
#include "lib/base/module/plugin.hpp"
#include "lib/congestion/manifest.hpp"

namespace weft::congestion {
namespace {

constexpr std::string_view kSuffix = "+win";
constexpr size_t kMostKinds = 64;

// The built-in controllers by file name, then those of add_controller(). Rows are only added, and
// readers take no lock: they see complete rows.
class Kinds {
 public:
  Kinds() {
    for (const ControllerFile file : controller_files())
      for (const Kind* kind : file()) WEFT_CHECK(add(*kind));
  }

  std::span<const Kind* const> rows() const noexcept {
    return {rows_.data(), count_.load(std::memory_order_acquire)};
  }
  bool add(const Kind& kind) {
    const std::lock_guard lock(mutex_);
    const size_t count = rows().size();
    const auto same = [&](const Kind* row) { return row->name == kind.name; };
    if (count == kMostKinds || std::any_of(rows_.begin(), rows_.begin() + count, same))
      return false;
    rows_[count] = &kind;
    count_.store(count + 1, std::memory_order_release);
    return true;
  }

 private:
  std::mutex mutex_;
  std::array<const Kind*, kMostKinds> rows_{};
  std::atomic<size_t> count_{0};
};

Kinds& all_kinds() {
  static Kinds kinds;
  return kinds;
}

std::string list_of_names() {
  std::string text;
  for (const Kind* kind : kinds()) text += (text.empty() ? "" : ", ") + std::string(kind->name);
  return text;
}

constexpr base::PluginKind kPlugin = {.symbol = "weft_controller",
                                      .macro = "WEFT_CONTROLLER(kYours)",
                                      .header = "weft/congestion.hpp",
                                      .interface_number = kControllerInterface};

// The controller of a shared object, which is registered the first time.
Result<const Kind*> load_kind(const std::string& path) {
  static std::mutex loading;
  const std::lock_guard lock(loading);
  const Result<const void*> exported = base::load_plugin(path, kPlugin);
  if (!exported) return exported.error();
  const Kind* const kind = static_cast<const ExportedController*>(*exported)->kind;
  for (const Kind* known : kinds())
    if (known == kind) return kind;
  if (const Result<void> added = add_controller(*kind); !added)
    return Error{added.error().code, path + ": " + added.error().message};
  return kind;
}

// The value that the network gives a parameter, where it is known.
std::optional<double> network_value(Follows follows, const Conditions& conditions) {
  switch (follows) {
    case Follows::packet_bytes:
      if (conditions.packet_bytes > 0) return conditions.packet_bytes;
      return std::nullopt;
    case Follows::payload_bytes:
      if (conditions.payload_bytes > 0) return conditions.payload_bytes;
      return std::nullopt;
    case Follows::drops:
      if (conditions.drops) return 1.0;
      return std::nullopt;
    case Follows::software_hosts:
      if (conditions.software_hosts) return 1.0;
      return std::nullopt;
    case Follows::nothing:
      return std::nullopt;
  }
  return std::nullopt;
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

std::span<const Kind* const> kinds() noexcept { return all_kinds().rows(); }

Result<const Kind*> find_kind(std::string_view name, bool* with_window) {
  *with_window = name.ends_with(kSuffix);
  const std::string_view base = *with_window ? name.substr(0, name.size() - kSuffix.size()) : name;
  if (base::is_plugin_path(base)) return load_kind(std::string(base));
  for (const Kind* kind : kinds())
    if (kind->name == base) return kind;
  return Error{Code::not_found, "no controller '" + std::string(name) + "'; there are " +
                                    list_of_names() + ", each also with the suffix +win, or " +
                                    "the path of a shared object with one: ./mine.so"};
}

std::string full_name(const Kind& kind, bool with_window) {
  return std::string(kind.name) + (with_window ? std::string(kSuffix) : "");
}

Result<std::string> canonical_name(std::string_view name) {
  bool with_window = false;
  const Result<const Kind*> kind = find_kind(name, &with_window);
  if (!kind) return kind.error();
  return full_name(**kind, with_window);
}

bool takes_parameters_of(const Kind& kind, std::string_view name) noexcept {
  return kind.name == name || kind.parts[0] == name || kind.parts[1] == name;
}

Result<Preset> make_preset(std::string_view name, const Conditions& conditions,
                           std::span<const Setting> settings) {
  bool with_window = false;
  const Result<const Kind*> kind = find_kind(name, &with_window);
  if (!kind) return kind.error();
  return make_preset(**kind, with_window, conditions, settings);
}

Result<Preset> make_preset(const Kind& kind, bool with_window, const Conditions& conditions,
                           std::span<const Setting> settings) {
  Preset preset;
  if (conditions.line.bits_per_second <= 0 || conditions.rtt.ps <= 0)
    return Error{Code::invalid_argument, "a controller needs the line rate and the base RTT"};
  preset.kind = &kind;
  preset.windowed = with_window || preset.kind->windowed;
  for (size_t i = 0; i < preset.kind->parameters.size(); ++i)
    preset.values[i] = network_value(preset.kind->parameters[i].follows, conditions)
                           .value_or(preset.kind->parameters[i].value);
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
  WEFT_DCHECK(preset.min_rate > 0 && preset.min_rate <= preset.line_rate);
  preset.base_rtt_ns = static_cast<double>(conditions.rtt.ps) / 1000;
  const Rate network =
      conditions.network.bits_per_second > 0 ? conditions.network : conditions.line;
  preset.window_bytes = preset.base_rtt_ns * static_cast<double>(network.bits_per_second) / 8e9;
  return preset;
}

}  // namespace weft::congestion

namespace weft {

Result<void> add_controller(const congestion::Kind& kind) {
  const auto wrong = [&](const char* text) {
    return Error{Code::invalid_argument,
                 "add_controller: '" + std::string(kind.name) + "' " + text};
  };
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  };
  if (kind.name.empty() || !std::all_of(kind.name.begin(), kind.name.end(), plain))
    return wrong("is no name: use a-z, 0-9 and -");
  if (kind.parameters.empty() || kind.parameters.size() > congestion::kMaxParameters ||
      kind.parameters[congestion::kMinRate].name != "min_rate_mbps")
    return wrong("needs parameters, at most 20, of which min_rate_mbps is the first");
  if (kind.sprayed || kind.credit != nullptr)
    return wrong("may not spray or need credit: those are built in");
  if (kind.cnp_interval >= kind.parameters.size())
    return wrong("has a cnp_interval that is no index of its parameters");
  if (!congestion::all_kinds().add(kind)) return wrong("is taken, or there are 64 controllers");
  return {};
}

}  // namespace weft
