// SPDX-License-Identifier: BSD-3-Clause
// SRD stations around one switch with ECN, as incasts want it: many senders, one receiver.
#pragma once

#include "lib/base/check.hpp"
#include "lib/congestion/registry.hpp"
#include "lib/sim/frames/switch_node.hpp"
#include "tests/srd/srd_world.hpp"
#include "tests/support/catch.hpp"

namespace weft::test {

inline constexpr uint32_t kStarMbps = 100'000;
inline constexpr Duration kStarRtt = Duration::from_us(10);

// The options of stations whose flows `controller` controls; "none" and "halved" have none.
inline SrdOptions controlled(const std::string& controller, SrdOptions o = {}) {
  const congestion::Conditions network{
      .line = Rate{int64_t{kStarMbps} * o.rails * 1'000'000}, .rtt = kStarRtt, .network = {}};
  o.config.halve_on_loss = controller == "halved";
  o.capabilities.in_flight_limit = 8u << 20;
  const Result<congestion::Preset> credit = congestion::make_preset("rccc", network);
  REQUIRE(credit);
  o.config.credit = congestion::credit_rules(*credit);
  if (controller == "none" || controller == "halved") return o;
  const Result<congestion::Preset> preset = congestion::make_preset(controller, network);
  REQUIRE(preset);
  o.config.congestion = *preset;
  return o;
}

using SrdStations = std::vector<std::unique_ptr<SrdStation>>;

// A switch between the stations: number 0 on port 0, and so on, then their second addresses. Cables
// take 2 us each way. `digests`: it writes them.
inline std::unique_ptr<sim::SwitchNode> star_of(sim::Network& network, SrdStations& stations,
                                                uint64_t buffer, bool digests = false) {
  std::vector<sim::Host*> hosts;
  for (uint32_t rail = 0; rail < stations[0]->rails(); ++rail)
    for (auto& station : stations) hosts.push_back(&station->host(rail));
  sim::SwitchOptions o;
  o.mbps.assign(hosts.size(), kStarMbps);
  o.delay = Duration::from_us(2);
  o.buffer = buffer;
  // UEC's thresholds: 0.2 and 0.8 of the product of bandwidth and delay.
  o.kmin_us = 2;
  o.kmax_us = 8;
  o.pmax = 1;
  o.telemetry = digests;
  if (digests) o.digest_rtt = kStarRtt;
  Result<std::unique_ptr<sim::Switch>> made = sim::Switch::make(o, network.pool(), network.now());
  WEFT_CHECK(made);
  auto node = std::make_unique<sim::SwitchNode>(network, std::move(*made), hosts);
  sim::LinkOptions link;
  link.rate = Rate{int64_t{kStarMbps} * 1'000'000};
  link.delay = {};
  link.queue_bytes = 1u << 16;
  for (sim::Host* host : hosts) network.uplink(*host, *node, link);
  return node;
}

struct SrdStar {
  explicit SrdStar(const SrdOptions& options, uint64_t buffer = 32u << 20, bool digests = false) {
    for (uint32_t i = 0; i < options.stations; ++i)
      stations.push_back(std::make_unique<SrdStation>(network, i, options));
    node = star_of(network, stations, buffer, digests);
  }
  SrdStation& operator[](size_t i) { return *stations[i]; }
  bool run_until(const std::function<bool()>& done, Duration limit) {
    const Instant end = network.now() + limit;
    while (!done())
      if (network.now() > end || !network.events().step()) return done();
    return true;
  }

  sim::Network network;
  SrdStations stations;
  std::unique_ptr<sim::SwitchNode> node;
};

}  // namespace weft::test
