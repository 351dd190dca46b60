// SPDX-License-Identifier: BSD-3-Clause
// What holds for every controller whatever it is told: its rate is finite and within [min, line],
// its window at least 1, its deadline ahead of time; and once the lies end, an idle network gives
// it back at least half of the line rate. Random events of a seed that is printed.
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "lib/congestion/rccc.hpp"
#include "tests/congestion/congestion_script.hpp"
#include "tests/support/catch.hpp"

namespace weft::congestion {
namespace {

uint64_t base_seed() {
  const char* const text = std::getenv("WEFT_TEST_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 0) : 20240817;
}

void check_bounds(const Preset& preset, const Controller& controller) {
  const double rate = controller.rate();
  if (std::isfinite(rate) && rate >= preset.min_rate && rate <= preset.line_rate &&
      controller.window() >= 1 &&
      (preset.kind->credit == nullptr || controller.credit(preset) <= most_credit(preset)))
    return;
  CAPTURE(rate, controller.window());
  FAIL("a rate or window out of bounds");
}

// Numbers that break code: ends of the range, small ones, any bits.
uint64_t hostile(base::Random& random) {
  switch (random.below(5)) {
    case 0:
      return 0;
    case 1:
      return UINT64_MAX - random.below(4);
    case 2:
      return random.below(10'000);
    case 3:
      return random.next() >> random.below(64);
    default:
      return random.next();
  }
}

Ack hostile_ack(base::Random& random, Instant now, IntHop (&hops)[8]) {
  for (IntHop& hop : hops)
    hop = {static_cast<uint32_t>(hostile(random)), static_cast<uint32_t>(hostile(random)),
           static_cast<uint32_t>(hostile(random)), static_cast<uint32_t>(hostile(random))};
  Ack ack;
  ack.now = now;
  ack.rtt = Duration{static_cast<int64_t>(hostile(random))};
  ack.acked = hostile(random);
  ack.sent = hostile(random);
  ack.in_flight = hostile(random);
  ack.newly_acked = static_cast<uint32_t>(hostile(random));
  ack.packet_bytes = static_cast<uint32_t>(hostile(random));
  ack.marked = random.below(2) == 0;
  ack.digest = static_cast<uint8_t>(hostile(random));
  ack.path = static_cast<uint16_t>(hostile(random));
  ack.hops = {hops, static_cast<size_t>(random.below(9))};
  return ack;
}

void hostile_event(base::Random& random, const Preset& preset, Controller& controller,
                   Instant now) {
  IntHop hops[8];
  switch (random.below(6)) {
    case 0:
      return controller.on_cnp(preset, now);
    case 1:
      return controller.on_loss(preset, {.now = now,
                                         .acked = hostile(random),
                                         .in_flight = hostile(random),
                                         .rtt = Duration{static_cast<int64_t>(hostile(random))},
                                         .bytes = static_cast<uint32_t>(hostile(random)),
                                         .reason = static_cast<Loss::Reason>(random.below(3)),
                                         .last_hop = random.below(2) == 0});
    case 4:
      return controller.on_credit(preset,
                                  {.now = now, .bytes = static_cast<uint32_t>(hostile(random))});
    case 2:
      return controller.on_sent(preset, static_cast<uint32_t>(hostile(random)), now);
    case 3:
      return controller.on_deadline(preset, now);
    default:
      return controller.on_ack(preset, hostile_ack(random, now, hops));
  }
}

TEST_CASE("no event takes a controller out of its bounds") {
  const uint64_t seed = base_seed();
  INFO("replay: WEFT_TEST_SEED=" << seed << " congestion_property_test");
  for (const Kind* kind : kinds()) {
    for (const std::string suffix : {"", "+win"}) {
      const std::string name = std::string(kind->name) + suffix;
      INFO(name);
      base::Random random(seed);
      const Result<Preset> preset =
          make_preset(name, {.line = Rate::from_gbps(100), .rtt = Duration::from_ns(12240)});
      REQUIRE(preset);
      for (int run = 0; run < 20; ++run) {
        Controller controller;
        controller.start(*preset);
        Instant now{0};
        for (int i = 0; i < 5000; ++i) {
          now.ps += static_cast<int64_t>(random.below(10'000'000));
          hostile_event(random, *preset, controller, now);
          check_bounds(*preset, controller);
          // A deadline that stays in the past would spin.
          if (controller.next_deadline() <= now) controller.on_deadline(*preset, now);
          REQUIRE(controller.next_deadline() > now);
        }
      }
    }
  }
}

TEST_CASE("a controller recovers from hostile signals on an idle network") {
  const uint64_t seed = base_seed();
  INFO("replay: WEFT_TEST_SEED=" << seed << " congestion_property_test");
  for (const Kind* kind : kinds()) {
    INFO(std::string(kind->name));
    base::Random random(seed);
    const Result<Preset> preset =
        make_preset(kind->name, {.line = Rate::from_gbps(100), .rtt = Duration::from_ns(12240)});
    REQUIRE(preset);
    ScriptedFlow flow(*preset);
    for (int i = 0; i < 3000; ++i)
      flow.acknowledge({.gap_ns = 1 + static_cast<int64_t>(random.below(3000)),
                        .queue_bytes = static_cast<uint32_t>(random.below(30'000'000)),
                        .sent_bytes = static_cast<uint32_t>(hostile(random)),
                        .marked = true});
    const double worst = flow.controller().rate();
    // An idle network: no queue, no mark, a link that is a tenth full. Two seconds at most: DCQCN
    // climbs by 200 Mb/s per 300 us.
    for (int i = 0; i < 2'000'000 && flow.controller().rate() < 50e9; ++i)
      flow.acknowledge({.gap_ns = 1000, .sent_bytes = 1250});
    CAPTURE(worst);
    CHECK(flow.controller().rate() >= 50e9);
    // Credit bounds how much, not how fast.
    if (kind->signal != Signal::none && kind->signal != Signal::credit) CHECK(worst < 50e9);
  }
}

}  // namespace
}  // namespace weft::congestion
