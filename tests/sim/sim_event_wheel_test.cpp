// SPDX-License-Identifier: BSD-3-Clause
// The event wheel against a sorted container: by time, then by the order of pushing, near and far.
#include <cstdlib>
#include <map>

#include "lib/base/random.hpp"
#include "lib/sim/fabric/event_wheel.hpp"
#include "tests/support/catch.hpp"

namespace weft::sim::fabric {
namespace {

Packet event_at(int64_t at, uint32_t number) {
  Packet packet{};
  packet.at = at;
  packet.number = number;
  return packet;
}

// How far ahead a push is: now, this nanosecond, the wheel, its end, the heap.
int64_t distance(base::Random& random, bool whole_ns) {
  const uint64_t reach[] = {1, 1000, 100'000, 4'100'000, 50'000'000};
  const auto ps = static_cast<int64_t>(random.below(reach[random.below(5)]));
  return whole_ns ? ps / 1000 * 1000 : ps;
}

TEST_CASE("events leave the wheel by time, equal ones in the order of pushing") {
  const char* const text = std::getenv("WEFT_TEST_SEED");
  const uint64_t seed = text != nullptr ? std::strtoull(text, nullptr, 0) : 7;
  INFO("replay: WEFT_TEST_SEED=" << seed << " netsim_event_wheel_test");
  for (const bool whole_ns : {true, false}) {
    base::Random random(seed);
    ChunkPool pool;
    const auto wheel = std::make_unique<EventWheel>(pool);
    std::multimap<int64_t, uint32_t> expected;  // equal keys keep the order of insertion
    uint32_t pushed = 0;
    for (int step = 0; step < 200'000; ++step) {
      const bool drains = step / 20'000 % 2 == 1;
      if (random.below(100) < (drains ? 30u : 60u)) {
        const int64_t at = wheel->now() + distance(random, whole_ns);
        wheel->push(event_at(at, pushed));
        expected.insert({at, pushed++});
      } else if (wheel->ready()) {
        REQUIRE(!expected.empty());
        REQUIRE(wheel->next() == expected.begin()->first);
        const Packet packet = wheel->pop();
        REQUIRE(packet.number == expected.begin()->second);
        REQUIRE(wheel->now() == expected.begin()->first);
        expected.erase(expected.begin());
      } else {
        REQUIRE(expected.empty());
      }
    }
    size_t left = 0;
    wheel->each([&](const Packet&) { ++left; });
    CHECK(left == expected.size());
  }
}

TEST_CASE("a fifo of chunks is a queue") {
  ChunkPool pool;
  Fifo fifo;
  base::Random random(3);
  uint32_t pushed = 0;
  uint32_t popped = 0;
  for (int step = 0; step < 10'000; ++step) {
    if (random.below(2) == 0) {
      fifo.push(event_at(0, pushed++), pool);
    } else if (!fifo.empty()) {
      REQUIRE(fifo.front().number == popped);
      REQUIRE(fifo.pop(pool).number == popped++);
    }
    REQUIRE(fifo.size() == pushed - popped);
    uint32_t next = popped;
    bool in_order = true;
    fifo.each([&](const Packet& packet) { in_order &= packet.number == next++; });
    REQUIRE((in_order && next == pushed));
  }
}

}  // namespace
}  // namespace weft::sim::fabric
