// SPDX-License-Identifier: BSD-3-Clause
// The path policies, each by what it must do with what came back.
#include <map>
#include <set>

#include "lib/congestion/path_policy.hpp"
#include "tests/support/catch.hpp"

namespace weft::congestion {
namespace {

constexpr Instant kNow{1};

PathPolicy policy_of(PathChoice choice, uint32_t count = 64, uint64_t seed = 7,
                     bool freezes = false) {
  PathPolicy policy;
  policy.start({.choice = choice, .count = count, .freezes = freezes, .rtt = Duration::from_us(10)},
               seed);
  return policy;
}

std::map<uint16_t, int> shares(PathPolicy& policy, int count, Instant now = kNow) {
  std::map<uint16_t, int> result;
  for (int i = 0; i < count; ++i) ++result[policy.next(now)];
  return result;
}

TEST_CASE("single takes one path, oblivious every one equally often in an order that changes") {
  PathPolicy single = policy_of(PathChoice::single);
  CHECK(shares(single, 1000).size() == 1);
  PathPolicy oblivious = policy_of(PathChoice::oblivious);
  std::set<std::vector<uint16_t>> orders;
  for (int round = 0; round < 10; ++round) {
    std::vector<uint16_t> order;
    for (int i = 0; i < 64; ++i) order.push_back(oblivious.next(kNow));
    CHECK(std::set<uint16_t>(order.begin(), order.end()).size() == 64);
    orders.insert(order);
  }
  CHECK(orders.size() > 5);
}

TEST_CASE("upper bits are fixed at random per flow, recycled values keep theirs") {
  for (const PathChoice choice : {PathChoice::oblivious, PathChoice::bitmap, PathChoice::mixed}) {
    std::set<uint16_t> uppers;
    for (uint64_t seed = 0; seed < 50; ++seed) {
      PathPolicy policy;
      policy.start({.choice = choice, .count = 64, .upper_bits = true}, seed);
      const uint16_t first = policy.next(kNow);
      uppers.insert(first >> 6);
      for (int i = 0; i < 200; ++i) {
        const uint16_t entropy = policy.next(kNow);
        CHECK(entropy >> 6 == first >> 6);
        if (i % 3 == 0) policy.on_feedback(entropy, PathFeedback::good, kNow);
      }
    }
    CHECK(uppers.size() > 40);
  }
}

TEST_CASE("bitmap skips a path once per penalty point") {
  const std::pair<PathFeedback, int> kCosts[] = {{PathFeedback::good, 0},
                                                 {PathFeedback::marked, 1},
                                                 {PathFeedback::not_arrived, 4},
                                                 {PathFeedback::timed_out, 15}};
  for (const auto& [feedback, cost] : kCosts) {
    PathPolicy policy = policy_of(PathChoice::bitmap, 8);
    policy.on_feedback(3, feedback, kNow);
    int skipped = 0;
    for (int round = 0; round < 40; ++round) {
      // A walk that passes over a path takes the next one and so ends sooner: count by its return.
      if (shares(policy, 7)[3] > 0) break;
      ++skipped;
    }
    CHECK(skipped >= cost - 1);
    CHECK(skipped <= cost + 1);
  }
}

TEST_CASE("bitmap uses any path when all have penalties") {
  PathPolicy policy = policy_of(PathChoice::bitmap, 8);
  for (uint16_t i = 0; i < 8; ++i) policy.on_feedback(i, PathFeedback::timed_out, kNow);
  CHECK(shares(policy, 1000).size() == 8);
}

TEST_CASE("reps uses the last eight good paths, each once, oldest first, else any") {
  PathPolicy policy = policy_of(PathChoice::reps);
  for (uint16_t i = 10; i < 20; ++i) policy.on_feedback(i, PathFeedback::good, kNow);
  policy.on_feedback(33, PathFeedback::marked, kNow);
  policy.on_feedback(34, PathFeedback::not_arrived, kNow);
  for (uint16_t i = 12; i < 20; ++i) CHECK(policy.next(kNow) == i);
  CHECK(shares(policy, 1000).size() > 50);
}

TEST_CASE("reps freezes after an RTO: round robin over known good paths for 10 ms, then explores") {
  PathPolicy policy = policy_of(PathChoice::reps, 64, 7, true);
  for (const uint16_t i : {5, 6, 7}) policy.on_feedback(i, PathFeedback::good, kNow);
  policy.on_feedback(9, PathFeedback::timed_out, kNow);
  const std::map<uint16_t, int> frozen = shares(policy, 300);
  CHECK(frozen.size() == 3);
  for (const uint16_t i : {5, 6, 7}) CHECK(frozen.at(i) == 100);
  // It leaves at the first word after 10 ms, and that word is kept; 16 random picks come first.
  const Instant later{kNow.ps + Duration::from_ms(11).ps};
  policy.on_feedback(40, PathFeedback::good, later);
  CHECK(shares(policy, 16, later).size() > 8);
  CHECK(policy.next(later) == 40);
}

TEST_CASE("mixed takes every good path once, however many, and walks past penalties else") {
  PathPolicy policy = policy_of(PathChoice::mixed);
  for (uint16_t i = 0; i < 50; ++i) policy.on_feedback(i, PathFeedback::good, kNow);
  for (uint16_t i = 0; i < 50; ++i) CHECK(policy.next(kNow) == i);
  for (uint16_t i = 0; i < 32; ++i) policy.on_feedback(i, PathFeedback::timed_out, kNow);
  for (const auto& [entropy, count] : shares(policy, 320)) CHECK(entropy >= 32);
}

TEST_CASE("plb keeps a path and repaths after five to seven RTTs without good feedback") {
  PathPolicy policy = policy_of(PathChoice::plb);
  Instant now = kNow;
  const uint16_t first = policy.next(now);
  for (int i = 0; i < 1000; ++i) {
    now.ps += Duration::from_us(10).ps;
    policy.on_feedback(first, PathFeedback::good, now);
    REQUIRE(policy.next(now) == first);
  }
  const Instant good = now;
  uint16_t path = first;
  while (path == first && now - good < Duration::from_ms(10)) {
    now.ps += Duration::from_us(1).ps;
    policy.on_feedback(path, PathFeedback::marked, now);
    path = policy.next(now);
  }
  CHECK(now - good >= Duration::from_us(50));
  CHECK(now - good <= Duration::from_us(71));
}

}  // namespace
}  // namespace weft::congestion
