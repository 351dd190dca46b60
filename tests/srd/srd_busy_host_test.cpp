// SPDX-License-Identifier: BSD-3-Clause
// SRD between processes that do not always run: each is away for milliseconds at a time, many round
// trips, as on a machine with more work than cores. What waits for a process is neither lost nor a
// queue of the network.
#include <cstdio>

#include "tests/srd/srd_spines.hpp"

namespace weft::test {
namespace {

using transport::Count;

constexpr uint32_t kMbps = 200;
constexpr Duration kRtt = Duration::from_us(1000);  // configured for controllers
constexpr uint32_t kMessage = 65536;

SrdOptions busy_host_options(const std::string& controller) {
  SrdOptions o;
  o.config.paths = 8;
  o.config.least_rto = Duration::from_ms(1);
  o.config.halve_on_loss = false;
  o.capabilities.in_flight_limit = 1u << 20;
  o.link.rate = Rate{int64_t{kMbps} * 1'000'000};
  o.link.delay = Duration::from_us(100);
  if (controller == "none") return o;
  // As the provider has it.
  const std::vector<congestion::Setting> settings{
      {"mtu_bytes", 4096 + 122}, {"mss_bytes", 4096}, {"least_base", 1}};
  const Result<congestion::Preset> preset = congestion::make_preset(
      controller, {.line = Rate{int64_t{kMbps} * 1'000'000}, .rtt = kRtt, .network = {}}, settings);
  REQUIRE(preset);
  o.config.congestion = *preset;
  return o;
}

// A process that runs for a while, then not, by chance.
struct Scheduled {
  SrdStation& station;
  base::Random random;
  Instant away_at;

  void look(Instant now, Duration most_away) {
    if (now < away_at || most_away.ps == 0) return;
    const auto below = [this](Duration most) {
      return Duration{static_cast<int64_t>(random.below(static_cast<uint64_t>(most.ps)))};
    };
    const Duration away = below(most_away);
    station.life().pause(away);
    away_at = now + away + below(Duration::from_ms(6));
  }
};

struct Outcome {
  double mbps = 0;
  double wasted = 0;  // retransmitted packets, of all
};

// WRITEs from one to the other for two seconds.
Outcome stream(const std::string& controller, int most_away_ms, uint64_t seed) {
  SrdWorld world(busy_host_options(controller));
  Scheduled processes[] = {{world[0], base::Random(seed), {}}, {world[1], base::Random(~seed), {}}};
  Stream stream(world.network, world[0], world[1], kMessage, 16);
  const Instant end = world.network.now() + Duration::from_s(2);
  while (world.network.now() < end) {
    for (Scheduled& process : processes)
      process.look(world.network.now(), Duration::from_ms(most_away_ms));
    world.run_for(Duration::from_us(50));
  }
  Outcome o;
  o.mbps = static_cast<double>(stream.bytes()) * 8 / 2e6;
  o.wasted = static_cast<double>(world[0].count(Count::tx_retransmits)) /
             static_cast<double>(world[0].count(Count::tx_packets));
  std::printf("%s, away for up to %d ms: %.1f Mb/s of %u, %.1f %% sent again for nothing\n",
              controller.c_str(), most_away_ms, o.mbps, kMbps, 100 * o.wasted);
  return o;
}

// The arrival of an earlier transmission bounds the round trip from below.
TEST_CASE("the RTO follows round trips that have become longer than it") {
  for (const int ms : {4, 8, 16})
    for (const uint64_t seed : {1u, 2u}) {
      INFO(ms << " ms, seed " << seed);
      const Outcome o = stream("none", ms, seed);
      CHECK(o.mbps > 160);
      CHECK(o.wasted < 0.15);
    }
}

// At most 1.5 times the configured bandwidth-delay product may be in flight.
TEST_CASE("short round trips do not take nscc's window below the configured one") {
  struct Case {
    int ms;
    double mbps;
  };
  for (const Case c : {Case{0, 190}, Case{4, 100}, Case{8, 55}, Case{16, 25}})
    for (const uint64_t seed : {1u, 2u}) {
      INFO(c.ms << " ms, seed " << seed);
      const Outcome o = stream("nscc", c.ms, seed);
      CHECK(o.mbps > c.mbps);
      CHECK(o.wasted < 0.05);
    }
}

}  // namespace
}  // namespace weft::test
