// SPDX-License-Identifier: BSD-3-Clause
// The queue of the peers that wait for a receive, as a value: against a model of two lists, and at
// its bounds. //= threat:A20
#include <deque>
#include <set>

#include "lib/base/random.hpp"
#include "lib/srd/state/rnr_queue.hpp"
#include "tests/support/catch.hpp"

namespace weft::srd {
namespace {

Instant at_us(uint64_t us) { return Instant{} + Duration::from_us(static_cast<int64_t>(us)); }

struct Model {
  struct Entry {
    uint32_t peer;
    bool notified;
    Instant until;
  };
  std::deque<Entry> waiting, reserved;

  void join(uint32_t peer, bool notified) {
    for (const Entry& e : waiting)
      if (e.peer == peer) return;
    waiting.push_back({peer, notified, {}});
  }
  void use(uint32_t peer) {
    for (auto e = reserved.begin(); e != reserved.end(); ++e)
      if (e->peer == peer) return (void)reserved.erase(e);
  }
  void expire(Instant now) {
    while (!reserved.empty() && reserved.front().until <= now) {
      const Entry late = reserved.front();
      reserved.pop_front();
      if (!late.notified) join(late.peer, true);
    }
  }
};

}  // namespace

TEST_CASE("the RNR queue agrees with two lists, threat:A20") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    base::Random random(seed);
    RnrQueue queue;
    Model model;
    Instant now;
    for (int step = 0; step < 3000; ++step) {
      now = now + Duration::from_us(static_cast<int64_t>(random.below(3)));
      const auto peer = static_cast<uint32_t>(random.below(12));
      switch (random.below(4)) {
        case 0:
          REQUIRE(queue.join({peer}));
          model.join(peer, false);
          break;
        case 1:
          if (model.waiting.empty()) break;
          REQUIRE(queue.reserve(now + Duration::from_us(10)) == model.waiting.front().peer);
          model.reserved.push_back(model.waiting.front());
          model.reserved.back().until = now + Duration::from_us(10);
          model.waiting.pop_front();
          break;
        case 2:
          queue.use(peer);
          model.use(peer);
          break;
        default:
          queue.expire(now);
          model.expire(now);
      }
      queue.check_invariants();
      REQUIRE(queue.empty() == model.waiting.empty());
      REQUIRE(queue.waiting() == model.waiting.size());
      REQUIRE(queue.reservations() == model.reserved.size());
      REQUIRE(queue.next_expiry() ==
              (model.reserved.empty() ? Instant::never() : model.reserved.front().until));
      uint32_t others = 0;
      for (const Model::Entry& e : model.reserved) others += e.peer != peer;
      REQUIRE(queue.reserved_for_others(peer) == others);
    }
  }
}

TEST_CASE("a reservation expires at its time, and its peer gets one more place, threat:A20") {
  RnrQueue queue;
  REQUIRE(queue.join({7}));
  REQUIRE(queue.join({8}));
  REQUIRE(queue.reserve(at_us(10)) == 7);
  queue.expire(at_us(9));
  CHECK(queue.reservations() == 1);
  queue.expire(at_us(10));
  CHECK(queue.reservations() == 0);
  REQUIRE(queue.waiting() == 2);
  CHECK(queue.reserve(at_us(20)) == 8);  // 7 is behind it now
  CHECK(queue.reserve(at_us(30)) == 7);
  queue.expire(at_us(30));
  CHECK(queue.waiting() == 1);  // 8; 7 did not come twice
  CHECK(queue.reserve(at_us(40)) == 8);
}

TEST_CASE("the RNR queue refuses the peer after its last place, threat:A20") {
  RnrQueue queue;
  for (uint32_t peer = 0; peer < RnrQueue::kMost; ++peer) REQUIRE(queue.join({peer}));
  CHECK_FALSE(queue.join({RnrQueue::kMost}));
  CHECK(queue.join({RnrQueue::kMost - 1}));  // has a place already
  CHECK(queue.waiting() == RnrQueue::kMost);
  CHECK(queue.reserve(at_us(1)) == 0);
  CHECK(queue.join({RnrQueue::kMost}));
}

}  // namespace weft::srd
