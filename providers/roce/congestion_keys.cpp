// SPDX-License-Identifier: BSD-3-Clause
// See congestion_keys.hpp.
#include "providers/roce/congestion_keys.hpp"

#include <charconv>

namespace weft::roce {

Result<void> CongestionKeys::take_parameters(verbs::DeviceSpec& spec) {
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

Result<void> CongestionKeys::choose(const std::string& name) {
  bool windowed = false;
  const Result<const congestion::Kind*> kind = congestion::find_kind(name, &windowed);
  if (!kind) return kind.error();
  using congestion::Signal;
  if ((*kind)->signal == Signal::digest)
    return Error{Code::not_supported, "cc=" + name +
                                          " needs a digest, which our packets do not carry; try "
                                          "hpcc, swift or dcqcn-nic+win"};
  if ((*kind)->sprayed)
    return Error{Code::not_supported, "cc=" + name +
                                          " is for packets over many paths, which RoCEv2 does not "
                                          "have; try hpcc, swift or dcqcn-nic+win"};
  name_ = name;
  if ((*kind)->signal == Signal::telemetry || (*kind)->name == "dctcp") telemetry_ = true;
  return {};
}

void CongestionKeys::append_to(std::vector<software::OwnKey>& own) {
  own.push_back({"cc", [this](const std::string& value) { return choose(value); }});
  own.push_back(software::number_key("cc_line_mbps", line_mbps_, 1, 1'000'000));
  own.push_back(software::number_key("cc_rtt_us", rtt_us_, 1, 100'000));
  own.push_back(software::number_key("cnp_interval_us", cnp_interval_us_, 0, 1'000'000));
  own.push_back(software::number_key("pacing_quantum_us", pacing_quantum_us_, 0, 1'000'000));
  own.push_back({"telemetry", [this](const std::string& value) -> Result<void> {
                   bool asked = false;
                   const Result<void> taken = software::flag_key("telemetry", asked).take(value);
                   telemetry_ = telemetry_ || asked;
                   return taken;
                 }});
}

Result<void> CongestionKeys::apply(engine::EngineConfig& config) const {
  config.cnp_interval = Duration::from_us(cnp_interval_us_);
  config.pacing_quantum = Duration::from_us(pacing_quantum_us_);
  if (name_.empty() && !parameters_.empty())
    return Error{Code::invalid_argument,
                 "cc." + parameters_.front().first + " needs a controller: add cc=NAME"};
  if (name_.empty()) return {};
  std::vector<congestion::Setting> settings;
  for (const auto& [name, value] : parameters_) settings.push_back({name, value});
  const Result<congestion::Preset> preset =
      congestion::make_preset(name_,
                              {.line = Rate{int64_t{line_mbps_} * 1'000'000},
                               .rtt = Duration::from_us(rtt_us_),
                               .network = {}},
                              settings);
  if (!preset) return preset.error();
  config.congestion = *preset;
  return {};
}

}  // namespace weft::roce
