// SPDX-License-Identifier: BSD-3-Clause
// Opens a `roce` device: parses its own keys, opens its port, creates its engine.
#include "providers/software/open.hpp"

#include "lib/base/clock.hpp"
#include "lib/roce/profiles.hpp"
#include "providers/roce/congestion_keys.hpp"
#include "providers/roce/roce_context.hpp"
#include "providers/software/protect.hpp"

namespace weft::roce_provider {

namespace {
constexpr uint16_t kUdpPort = 4791;  //= roce:C-HDR-7

software::OwnKey icrc_key(bool& target) {
  return {"icrc", [&target](const std::string& value) -> Result<void> {
            if (value != "on" && value != "off")
              return Error{Code::invalid_argument, "icrc=" + value + ": must be on or off"};
            target = value == "on";
            return {};
          }};
}

// The kind of device that `profile=` names; without that key, weft.
Result<const roce::Profile*> profile_of(const verbs::DeviceSpec& spec) {
  const roce::Profile* profile = &roce::profiles().back();
  for (const auto& [key, value] : spec.options) {
    if (key != "profile") continue;
    profile = roce::find_profile(value);
    if (profile != nullptr) continue;
    std::string names;
    for (const roce::Profile& p : roce::profiles())
      names += (names.empty() ? "" : ", ") + std::string(p.name);
    return Error{Code::invalid_argument, "profile=" + value + ": must be one of " + names};
  }
  return profile;
}
}  // namespace

Result<std::shared_ptr<verbs::Context>> open(const verbs::DeviceSpec& given) {
  bool single_thread = false;
  bool secure = false;
  uint32_t engines = 1;
  roce::EngineConfig config;
  config.throttle = true;
  const Result<const roce::Profile*> profile = profile_of(given);
  if (!profile) return profile.error();
  roce::apply(**profile, config);  // first: the other keys override it
  bool selective_repeat = roce::repeats_selectively(**profile);
  verbs::DeviceSpec spec = given;
  CongestionKeys congestion(config);
  if (const Result<void> ok = congestion.take_parameters(spec); !ok) return ok.error();
  std::vector<software::OwnKey> own = {
      software::flag_key("single_thread", single_thread),
      software::flag_key("credits", config.credits),
      software::flag_key("throttle", config.throttle),
      software::flag_key("selective_repeat", selective_repeat),
      {"profile", [](const std::string&) { return Result<void>(); }},
      software::flag_key("wait_for_stopped", config.waits_for_stopped),
      software::engines_key(engines),
      software::secure_key(secure),
      icrc_key(config.icrc)};
  congestion.append_to(own);
  Result<software::OpenedPort> opened =
      software::open_port(spec, own, kUdpPort, congestion.telemetry(), {}, engines);
  if (!opened) return opened.error();
  if (const Result<void> ok = software::check_engines(engines, single_thread); !ok)
    return ok.error();
  if (secure) {
    const Result<void> ok = software::protect(*opened, secure::kRoceLayout, kUdpPort);
    if (!ok) return ok.error();
  }
  if (const Result<void> ok = congestion.check(opened->first().capabilities(), opened->name); !ok)
    return ok.error();
  if (const Result<void> ok = congestion.apply(config); !ok) return ok.error();
  config.start = base::Clock::process().now();
  DeviceAttributes attributes = software::describe(spec, *opened, config.limits);
  if (!config.icrc) attributes.integrity_bits = 0;
  attributes.has_flush = attributes.has_xrc = attributes.resizes_srq = true;
  attributes.has_rate_limit = true;
  attributes.selective_repeat = selective_repeat;
  attributes.max_mw = attributes.max_mr;
  attributes.max_srq = attributes.max_xrcd = roce::SrqTable::kMost;
  attributes.max_srq_wr = config.limits.max_qp_wr;
  attributes.max_srq_sge = config.limits.max_sge;
  std::shared_ptr<RoceContext> context(
      new RoceContext(std::move(opened->ports), config,
                      {.single_thread = single_thread,
                       .paces = config.congestion.has_value(),
                       .packets = {.udp_port = kUdpPort, .place_length = sizeof(base::Be32)}},
                      std::move(attributes)));
  if (const Result<void> ok = context->start(); !ok) return ok.error();
  return std::shared_ptr<verbs::Context>(std::move(context));
}

void list(std::vector<DeviceListing>& out, LoadModules modules) {
  software::list_ports("roce", kUdpPort, out, modules);
}

}  // namespace weft::roce_provider
