// SPDX-License-Identifier: BSD-3-Clause
// Opening a `roce` device: its own keys, its port, its engine.
#include "providers/software/open.hpp"

#include "lib/base/clock.hpp"
#include "lib/congestion/registry.hpp"
#include "providers/roce/roce_context.hpp"

namespace weft::roce {

namespace {
constexpr uint16_t kUdpPort = 4791;  //= roce:C-HDR-7

// The keys of congestion control, and what comes of them.
struct CongestionKeys {
  std::string name;
  uint32_t line_mbps = 10'000;
  uint32_t rtt_us = 50;
  uint32_t cnp_interval_us = 50;

  software::OwnKey name_key() {
    return {"cc", [this](const std::string& value) -> Result<void> {
              bool windowed = false;
              const Result<const congestion::Kind*> kind = congestion::find_kind(value, &windowed);
              if (!kind) return kind.error();
              using congestion::Signal;
              const bool telemetry =
                  (*kind)->signal == Signal::telemetry || (*kind)->signal == Signal::digest;
              if ((*kind)->sprayed)
                return Error{Code::not_supported,
                             "cc=" + value +
                                 " is for packets over many paths, which RoCEv2 does not have; "
                                 "try swift, dcqcn-nic+win or theta-powertcp"};
              if (telemetry || (*kind)->name == "dctcp")
                return Error{Code::not_supported,
                             "cc=" + value + " needs " +
                                 (telemetry ? "telemetry" : "each mark told by an ACK") +
                                 ", which RoCEv2 does not carry; try swift, dcqcn-nic+win or "
                                 "theta-powertcp"};
              name = value;
              return {};
            }};
  }
  Result<void> apply(engine::EngineConfig& config) const {
    config.cnp_interval = Duration::from_us(cnp_interval_us);
    if (name.empty()) return {};
    const Result<congestion::Preset> preset =
        congestion::make_preset(name, {.line = Rate{int64_t{line_mbps} * 1'000'000},
                                       .rtt = Duration::from_us(rtt_us),
                                       .network = {}});
    if (!preset) return preset.error();
    config.congestion = *preset;
    return {};
  }
};

}  // namespace

Result<std::shared_ptr<verbs::Context>> open(const verbs::DeviceSpec& spec) {
  bool single_thread = false;
  engine::EngineConfig config;
  CongestionKeys cc;
  Result<software::OpenedPort> opened = software::open_port(
      spec,
      {software::flag_key("single_thread", single_thread),
       software::flag_key("credits", config.credits), cc.name_key(),
       software::number_key("cc_line_mbps", cc.line_mbps, 1000, 1'000'000),
       software::number_key("cc_rtt_us", cc.rtt_us, 1, 100'000),
       software::number_key("cnp_interval_us", cc.cnp_interval_us, 0, 1'000'000)},
      kUdpPort);
  if (!opened) return opened.error();
  if (const Result<void> ok = cc.apply(config); !ok) return ok.error();
  config.start = base::Clock::process().now();
  DeviceAttributes attributes = software::describe(spec, *opened, config.limits);
  std::shared_ptr<RoceContext> context(new RoceContext(
      std::move(opened->port), config, {.single_thread = single_thread}, std::move(attributes)));
  if (const Result<void> ok = context->start(); !ok) return ok.error();
  return std::shared_ptr<verbs::Context>(std::move(context));
}

void list(std::vector<DeviceListing>& out) { software::list_ports("roce", kUdpPort, out); }

}  // namespace weft::roce
