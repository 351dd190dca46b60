// SPDX-License-Identifier: BSD-3-Clause
// See congestion_keys.hpp.
#include "providers/roce/congestion_keys.hpp"

namespace weft::roce_provider {

namespace {
constexpr uint32_t kLineMbps = 10'000, kRttUs = 50;
}  // namespace

CongestionKeys::CongestionKeys(const roce::EngineConfig& config)
    : keys_(kLineMbps, kRttUs,
            [this](std::string_view name, const congestion::Kind& kind) {
              return examine(name, kind);
            }),
      cnp_interval_us_(static_cast<uint32_t>(config.cnp_interval.us())),
      cnp_dscp_(config.cnp_dscp),
      pacing_quantum_us_(static_cast<uint32_t>(config.pacing_quantum.us())) {}

Result<void> CongestionKeys::examine(std::string_view name, const congestion::Kind& kind) {
  using congestion::Signal;
  if (kind.sprayed)
    return Error{Code::not_supported, "cc=" + std::string(name) +
                                          " is for packets over many paths, which RoCEv2 does not "
                                          "have; try hpcc, swift or dcqcn-nic+win"};
  needed_ = kind.signal == Signal::telemetry || kind.signal == Signal::digest || kind.echoes_marks;
  telemetry_ = requested_.value_or(needed_);
  return {};
}

void CongestionKeys::append_to(std::vector<software::OwnKey>& own) {
  keys_.append_to(own);
  own.push_back(software::number_key("cnp_interval_us", cnp_interval_us_, 0, 1'000'000));
  own.push_back(software::number_key("cnp_dscp", cnp_dscp_, 0, 63));
  own.push_back(software::number_key("pacing_quantum_us", pacing_quantum_us_, 0, 1'000'000));
  own.push_back({"telemetry", [this](const std::string& value) -> Result<void> {
                   bool requested = false;
                   const Result<void> taken =
                       software::flag_key("telemetry", requested).take(value);
                   requested_ = requested;
                   telemetry_ = requested;
                   return taken;
                 }});
}

Result<void> CongestionKeys::check(const transport::Capabilities& port,
                                   std::string_view name) const {
  if (!requested_.value_or(false) || port.telemetry) return {};
  const std::string_view why =
      name == "udp" || name == "auto"
          ? "processes or engines that share an address cannot tell to which it belongs; "
            "a loopback "
            "address (roce+udp:lo) belongs to one process"
          : "only the ports udp and dpdk do: no switch lies on the way of the others, or "
            "they do not listen on its UDP port";
  return Error{Code::not_supported, "telemetry=1: the port " + std::string(name) +
                                        " carries none here (" + std::string(why) +
                                        "). Leave the key out"};
}

Result<void> CongestionKeys::apply(roce::EngineConfig& config) const {
  config.cnp_interval = Duration::from_us(cnp_interval_us_);
  config.cnp_dscp = static_cast<uint8_t>(cnp_dscp_);
  config.pacing_quantum = Duration::from_us(pacing_quantum_us_);
  const Result<std::optional<congestion::Preset>> preset = keys_.preset(keys_.conditions());
  if (!preset) return preset.error();
  config.congestion = *preset;
  config.conditions = keys_.conditions();
  return {};
}

}  // namespace weft::roce_provider
