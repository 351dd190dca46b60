// SPDX-License-Identifier: BSD-3-Clause
// Opening an `srd` device: its own keys, its port, its engine.
#include "providers/software/open.hpp"

#include <time.h>

#include <algorithm>

#include "lib/base/clock.hpp"
#include "lib/congestion/path_names.hpp"
#include "providers/software/protect.hpp"
#include "providers/srd/congestion_keys.hpp"
#include "providers/srd/srd_context.hpp"

namespace weft::srd_provider {

namespace {

// rails=A+B: further addresses or interfaces of the port, IPv6 in brackets or not.
software::OwnKey rails_key(std::vector<std::string>& rails) {
  return {"rails", [&rails](const std::string& value) -> Result<void> {
            for (std::string_view rest = value;;) {
              const size_t plus = rest.find('+');
              std::string_view each = rest.substr(0, plus);
              if (each.starts_with('[') && each.ends_with(']'))
                each = each.substr(1, each.size() - 2);
              if (each.empty() || rails.size() == wire::kSrdMostRails)
                return Error{Code::invalid_argument,
                             "rails=" + value + ": must be 1 to " +
                                 std::to_string(wire::kSrdMostRails) +
                                 " addresses or interfaces, like rails=10.1.0.1+10.2.0.1"};
              rails.emplace_back(each);
              if (plus == std::string_view::npos) return {};
              rest = rest.substr(plus + 1);
            }
          }};
}

}  // namespace

Result<std::shared_ptr<verbs::Context>> open(const verbs::DeviceSpec& given) {
  bool single_thread = false, path_counters = false, police_credit = false, secure = false;
  srd::Config config;
  verbs::DeviceSpec spec = given;
  CongestionKeys congestion;
  if (const Result<void> ok = congestion.take_parameters(spec); !ok) return ok.error();
  uint32_t paths = 0, engines = 1;
  std::vector<std::string> rails;
  uint32_t patience_ms = static_cast<uint32_t>(config.dead_peer_timeout.ms());
  uint32_t least_rto_us = 1000;
  std::vector<software::OwnKey> own = {
      software::flag_key("single_thread", single_thread),
      software::flag_key("path_counters", path_counters),
      software::flag_key("police_credit", police_credit),
      software::flag_key("wait_for_stopped", config.waits_for_stopped),
      software::number_key("paths", paths, 1, srd::kMostPaths),
      software::number_key("ack_every", config.ack_every, 1, 64),
      {"path_policy",
       [&config](const std::string& name) -> Result<void> {
         const Result<congestion::PathChoice> choice = congestion::find_path_choice(name);
         if (!choice)
           return Error{choice.error().code, "path_policy=" + name + ": " + choice.error().message};
         config.policy = *choice;
         return {};
       }},
      software::number_key("patience_ms", patience_ms, 10, 3'600'000),
      software::number_key("least_rto_us", least_rto_us, 10, 1'000'000)};
  own.push_back(rails_key(rails));
  own.push_back(software::engines_key(engines));
  own.push_back(software::secure_key(secure));
  congestion.append_to(own);
  Result<software::OpenedPort> opened =
      software::open_port(spec, own, wire::kSrdUdpPort, software::kNoTelemetry, rails, engines);
  if (!opened) return opened.error();
  if (const Result<void> ok = software::check_engines(engines, single_thread); !ok)
    return ok.error();
  if (secure) {
    const Result<void> ok = software::protect(*opened, secure::kSrdLayout, wire::kSrdUdpPort);
    if (!ok) return ok.error();
  }
  // Memory has one path; a network perhaps many.
  const transport::Capabilities& c = opened->first().capabilities();
  const auto addresses = static_cast<uint32_t>(rails.size() + 1);
  if (const Result<void> ok = congestion.apply(config, c, addresses); !ok) return ok.error();
  const uint32_t most = srd::kMostPaths / addresses;
  if (paths > most)
    return Error{Code::invalid_argument, "paths=" + std::to_string(paths) + ": with " +
                                             std::to_string(addresses) + " addresses at most " +
                                             std::to_string(most)};
  config.paths = paths != 0 ? paths : c.lossless ? 1 : std::min(64u, most);
  config.path_counters = path_counters;
  config.police_credit = police_credit;
  config.dead_peer_timeout = Duration::from_ms(patience_ms);
  config.least_rto = Duration::from_us(least_rto_us);
  config.ack_piggyback_delay = config.least_rto / 16;
  config.start = base::Clock::process().now();
  DeviceAttributes attributes = software::describe(spec, *opened, config.limits);
  attributes.qp_type = QpType::srd;
  attributes.has_write_add = attributes.has_ordered = true;
  std::shared_ptr<SrdContext> context(
      new SrdContext(std::move(opened->ports), config,
                     {.single_thread = single_thread,
                      .subsystem = base::Subsystem::srd,
                      .paces = config.congestion && !config.congestion->kind->sprayed,
                      .packets = {.udp_port = wire::kSrdUdpPort,
                                  .place_offset = offsetof(wire::SrdBase, sequence)}},
                     std::move(attributes)));
  if (const Result<void> ok = context->start(); !ok) return ok.error();
  return std::shared_ptr<verbs::Context>(std::move(context));
}

void list(std::vector<DeviceListing>& out, LoadModules modules) {
  software::list_ports("srd", wire::kSrdUdpPort, out, modules);
}

}  // namespace weft::srd_provider
