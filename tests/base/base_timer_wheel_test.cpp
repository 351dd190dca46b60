// SPDX-License-Identifier: BSD-3-Clause
// lib/base/timer_wheel against a std::multimap that is keyed by tick: the same nodes, in the same
// order, at the same calls; next_deadline is a lower bound that always makes progress.
#include <rapidcheck.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <vector>

#include "lib/base/random.hpp"
#include "lib/base/timer_wheel.hpp"
#include "tests/support/catch.hpp"

using weft::Duration;
using weft::Instant;
using weft::base::Random;
using weft::base::TimerNode;
using weft::base::TimerWheel;

namespace {

constexpr int64_t kTick = int64_t{1} << TimerWheel::kTickShift;

// What the wheel promises, written with a sorted container: nodes by (tick, insertion), a tick in
// the past being the current one.
class Reference {
 public:
  explicit Reference(Instant start) : tick_(start.ps >> TimerWheel::kTickShift) {}
  void insert(TimerNode* node, Instant deadline) {
    nodes_.insert({std::max(tick_, deadline.ps >> TimerWheel::kTickShift), {node, deadline}});
  }
  void remove(TimerNode* node) {
    const auto found = std::find_if(nodes_.begin(), nodes_.end(),
                                    [&](const auto& entry) { return entry.second.node == node; });
    if (found != nodes_.end()) nodes_.erase(found);
  }
  TimerNode* pop_expired(Instant now) {
    for (auto it = nodes_.begin(); it != nodes_.end(); ++it) {
      if (it->first > now.ps >> TimerWheel::kTickShift) break;
      tick_ = std::max(tick_, it->first);
      if (it->second.deadline > now) continue;
      TimerNode* const node = it->second.node;
      nodes_.erase(it);
      return node;
    }
    tick_ = std::max(tick_, now.ps >> TimerWheel::kTickShift);
    return nullptr;
  }
  Instant earliest() const {
    Instant first = Instant::never();
    for (const auto& [tick, entry] : nodes_) first = std::min(first, entry.deadline);
    return first;
  }
  bool empty() const { return nodes_.empty(); }

 private:
  struct Entry {
    TimerNode* node;
    Instant deadline;
  };
  std::multimap<int64_t, Entry> nodes_;
  int64_t tick_;
};

}  // namespace

TEST_CASE("an empty wheel has no deadline and nothing to pop") {
  TimerWheel wheel({12345});
  CHECK(wheel.empty());
  CHECK(wheel.next_deadline().is_never());
  CHECK(wheel.pop_expired({INT64_MAX - 1}) == nullptr);
  TimerNode node;
  wheel.remove(node);  // no-op
  CHECK(wheel.empty());
}

TEST_CASE("a node expires at its deadline, not a picosecond earlier, at every level") {
  for (int shift = 0; shift < 62; ++shift) {
    TimerWheel wheel({kTick / 3});
    TimerNode node;
    const Instant deadline = {kTick / 3 + (int64_t{1} << shift) + 7};
    wheel.insert(node, deadline);
    CHECK(node.armed());
    CHECK(wheel.next_deadline() <= deadline);
    CHECK(wheel.pop_expired(deadline - Duration{1}) == nullptr);
    CHECK(wheel.next_deadline() == deadline);
    CHECK(wheel.pop_expired(deadline) == &node);
    CHECK_FALSE(node.armed());
    CHECK(wheel.empty());
  }
}

TEST_CASE("following next_deadline reaches the node in a few steps") {
  for (int shift = 0; shift < 56; ++shift) {
    TimerWheel wheel({0});
    TimerNode node;
    const Instant deadline = {(int64_t{1} << shift) * 63 / 32};
    wheel.insert(node, deadline);
    int steps = 0;
    Instant now = wheel.next_deadline();
    while (wheel.pop_expired(now) == nullptr) {
      REQUIRE(wheel.next_deadline() > now);
      now = wheel.next_deadline();
      ++steps;
    }
    CHECK(now == deadline);
    CHECK(steps < TimerWheel::kLevels);
  }
}

TEST_CASE("a deadline in the past expires at the next call") {
  TimerWheel wheel({0});
  CHECK(wheel.pop_expired({100 * kTick + 5}) == nullptr);
  TimerNode past, present;
  wheel.insert(present, {100 * kTick + 5});
  wheel.insert(past, {-7});
  CHECK(wheel.pop_expired({100 * kTick + 5}) == &present);
  CHECK(wheel.pop_expired({100 * kTick + 5}) == &past);
}

TEST_CASE("nodes of one tick expire in the order of insertion, whatever level they were on") {
  TimerWheel wheel({0});
  std::array<TimerNode, 6> nodes;
  const int64_t tick = int64_t{1} << 31;
  for (size_t i = 0; i < nodes.size(); ++i) {
    // Ever nearer to the tick: each one goes to a lower level than the one before.
    CHECK(wheel.pop_expired({(tick - (int64_t{1} << (30 - 6 * i))) * kTick}) == nullptr);
    wheel.insert(nodes[i], {tick * kTick + static_cast<int64_t>(10 - i)});
    if (i == 4) break;
  }
  for (size_t i = 0; i < 5; ++i) CHECK(wheel.pop_expired({tick * kTick + 10}) == &nodes[i]);
  CHECK(wheel.empty());
}

TEST_CASE(
    "a node beyond the range, and one that never expires, stay armed over turns of the wheel") {
  TimerWheel wheel({0});
  TimerNode far, never;
  const int64_t turn = int64_t{1} << 36;
  const Instant deadline = {(2 * turn + 5) * kTick + 3};
  wheel.insert(never, Instant::never());
  wheel.insert(far, deadline);
  for (const int64_t tick : {turn - 2, turn - 1, turn, turn + 1, 2 * turn - 1, 2 * turn}) {
    CHECK(wheel.pop_expired({tick * kTick + kTick - 1}) == nullptr);
    CHECK(wheel.next_deadline() <= deadline);
    CHECK(wheel.next_deadline() > Instant{tick * kTick + kTick - 1});
  }
  CHECK(wheel.pop_expired(deadline - Duration{1}) == nullptr);
  CHECK(wheel.pop_expired(deadline) == &far);
  CHECK(wheel.pop_expired({INT64_MAX - 1}) == nullptr);
  wheel.remove(never);
  CHECK(wheel.empty());
}

TEST_CASE("a node can be armed again from its own expiry") {
  TimerWheel wheel({0});
  TimerNode node;
  wheel.insert(node, {kTick});
  for (int64_t i = 1; i < 1000; ++i) {
    REQUIRE(wheel.pop_expired({i * kTick}) == &node);
    REQUIRE(wheel.pop_expired({i * kTick}) == nullptr);
    wheel.insert(node, {(i + 1) * kTick});
  }
}

TEST_CASE("the wheel agrees with a sorted container") {
  const bool held = rc::check("wheel == reference", [] {
    const uint64_t seed = *rc::gen::arbitrary<uint64_t>();  // printed on failure: replays the run
    Random random(seed);
    Instant now = {static_cast<int64_t>(random.next() >> (4 + random.below(58)))};
    TimerWheel wheel(now);
    Reference reference(now);
    std::vector<TimerNode> nodes(1 + random.below(64));
    for (int step = 0; step < 400; ++step) {
      TimerNode& node = nodes[random.below(nodes.size())];
      const auto distance = static_cast<int64_t>(random.next() >> (6 + random.below(58)));
      switch (random.below(4)) {
        case 0:
        case 1: {
          wheel.remove(node);
          reference.remove(&node);
          Instant deadline = now + Duration{std::min(distance, INT64_MAX - 1 - now.ps)};
          if (random.below(16) == 0) deadline = now - Duration{distance % (2 * kTick)};
          if (random.below(64) == 0) deadline = Instant::never();
          wheel.insert(node, deadline);
          reference.insert(&node, deadline);
          break;
        }
        case 2:
          wheel.remove(node);
          reference.remove(&node);
          break;
        default:
          now =
              random.below(2)
                  ? std::clamp(wheel.next_deadline(), now, Instant{INT64_MAX - 1})
                  : now + Duration{std::min(distance >> random.below(40), INT64_MAX - 1 - now.ps)};
          for (uint64_t pops = random.below(80); pops > 0; --pops) {
            TimerNode* const popped = wheel.pop_expired(now);
            RC_ASSERT(popped == reference.pop_expired(now));
            if (popped == nullptr) {
              RC_ASSERT(wheel.next_deadline() > now);
              break;
            }
          }
      }
      RC_ASSERT(wheel.empty() == reference.empty());
      RC_ASSERT(wheel.next_deadline() <= reference.earliest());
    }
  });
  CHECK(held);
}
