// SPDX-License-Identifier: BSD-3-Clause
// Controllers that live on telemetry, told lies: any number of hops, rates that no port has, queues
// of any length, counters and times that go anywhere. Whatever is said, the rate stays between
// min_rate and line rate and the window finite; and when the truth is told again, it comes back.
#include <cmath>
#include <cstdlib>

#include "lib/base/random.hpp"
#include "lib/congestion/registry.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/scale.hpp"

namespace weft::congestion {
namespace {

const Conditions kIntAttackNetwork = {
    .line = Rate::from_gbps(100), .rtt = Duration::from_us(10), .network = {}};
constexpr int64_t kRttNs = 10'000;

// A number that hurts: one of the edges, or any.
uint32_t hurtful(base::Random& random) {
  constexpr uint32_t kEdges[] = {0, 1, 2, 999, 100'000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF};
  const uint64_t draw = random.below(12);
  return draw < 8 ? kEdges[draw] : static_cast<uint32_t>(random.next());
}

struct Victim {
  Preset preset;
  Controller controller;
  Ack ack;
  IntHop hops[kMaxHops + 4];
  bool sane = true;

  explicit Victim(const char* name) : preset(*make_preset(name, kIntAttackNetwork)) {
    controller.start(preset);
    ack.packet_bytes = ack.newly_acked = 1024;
  }
  void tell(std::span<const IntHop> said, uint8_t digest, int64_t after_ns) {
    ack.now = ack.now + Duration::from_ns(after_ns);
    ack.rtt = Duration::from_ns(kRttNs);
    ack.acked += 1024;
    ack.sent = ack.acked + 100 * 1024;
    ack.hops = said;
    ack.digest = digest;
    controller.on_ack(preset, ack);
    const double rate = controller.rate();
    sane = sane && std::isfinite(rate) && rate >= preset[0] * 1e6 && rate <= preset.line_rate &&
           controller.window() > 0;
  }
  void lie(base::Random& random) {
    for (IntHop& hop : hops)
      hop = {hurtful(random), hurtful(random), hurtful(random), hurtful(random)};
    ack.path = static_cast<uint16_t>(random.below(2));
    tell(std::span(hops).first(random.below(std::size(hops) + 1)),
         static_cast<uint8_t>(random.next()), static_cast<int64_t>(random.below(1000)));
  }
  // One hop that carries what is sent, with no queue: `rtts` round trips of 100 packets.
  void truth(int rtts) {
    ack.path = 7;
    IntHop hop{100'000, 0, 0, 0};
    double sent = 0;
    for (int i = 0; i < 100 * rtts; ++i) {
      const int64_t step = kRttNs / 100;
      sent += controller.rate() * static_cast<double>(step) / 8e9;
      hop.time_ns += static_cast<uint32_t>(step);
      hop.sent_bytes = static_cast<uint32_t>(static_cast<uint64_t>(sent));
      const double share = controller.rate() / preset.line_rate;
      tell({&hop, 1}, static_cast<uint8_t>(1 + 200 * share), step);
    }
  }
};

TEST_CASE("forged telemetry keeps the rate within its bounds, threat:A15") {
  const char* const name = GENERATE("hpcc", "powertcp", "hpcc-pint");
  INFO(name);
  base::Random random(15);
  Victim v(name);
  const bool all = std::getenv("WEFT_TEST_LONG") != nullptr;
  const uint64_t stacks = test::scaled(all ? 10'000'000 : 1'000'000);
  for (uint64_t i = 0; i < stacks; ++i) v.lie(random);
  CHECK(v.sane);
}

TEST_CASE("ten round trips of valid telemetry undo any forged one, threat:A15") {
  const bool hpcc = GENERATE(true, false);
  const char* const name = hpcc ? "hpcc" : "powertcp";
  INFO(name);
  base::Random random(16);
  double least = 1;
  for (uint64_t i = 0; i < test::scaled(300); ++i) {
    Victim v(name);
    v.truth(1);
    for (int lies = 0; lies < 50; ++lies) v.lie(random);
    v.truth(hpcc ? 10 : 13);  // PowerTCP averages over as long, and reacts by 0.9
    REQUIRE(v.sane);
    least = std::min(least, v.controller.rate() / v.preset.line_rate);
  }
  CHECK(least >= 0.95 * 0.95);  // of eta, what both aim at
}

}  // namespace
}  // namespace weft::congestion
