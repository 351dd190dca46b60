// SPDX-License-Identifier: BSD-3-Clause
// The values of loss recovery, alone: the scoreboard of a requester, the holes of a responder, and
// the round trip that times probes.
#include "lib/roce/recovery/holes.hpp"
#include "lib/roce/recovery/round_trip.hpp"
#include "lib/roce/recovery/scoreboard.hpp"
#include "tests/support/catch.hpp"

namespace weft::test {
namespace {

using roce::Holes;
using roce::RoundTrip;
using roce::Scoreboard;

constexpr uint64_t kFirst = (uint64_t{1} << 32) - 2;  // low bits wrap

TEST_CASE("a PSN is missing once until it is sent again, and then once more if that is lost") {
  Scoreboard board(8);
  CHECK(board.empty());
  CHECK(board.miss(kFirst + 2, kFirst + 3));
  CHECK(board.miss(kFirst, kFirst + 3));
  CHECK_FALSE(board.miss(kFirst, kFirst + 3));
  CHECK(board.first_missing(kFirst) == kFirst);
  board.on_repeated(kFirst, kFirst + 1, kFirst + 4);
  CHECK(board.first_missing(kFirst) == kFirst + 2);
  board.on_repeated(kFirst + 2, kFirst + 3, kFirst + 5);
  CHECK_FALSE(board.has_missing());
  CHECK_FALSE(board.miss(kFirst, kFirst + 4));  // nothing that left later arrived
  CHECK(board.miss(kFirst, kFirst + 5));
  CHECK_FALSE(board.miss(kFirst + 2, kFirst + 5));
  CHECK(board.take(kFirst, kFirst + 3) == 0);
  CHECK(board.empty());
}

TEST_CASE("what is held is neither missing nor charged, and counts once") {
  Scoreboard board(8);
  CHECK(board.hold(kFirst + 1));
  CHECK_FALSE(board.hold(kFirst + 1));
  CHECK_FALSE(board.miss(kFirst + 1, kFirst + 8));
  CHECK(board.miss(kFirst, kFirst + 8));
  CHECK(board.hold(kFirst));  // it was only late
  CHECK_FALSE(board.has_missing());
  board.on_repeated(kFirst, kFirst + 2, kFirst + 3);
  CHECK(board.held(kFirst));
  CHECK(board.take(kFirst, kFirst + 100) == 2);
  CHECK(board.empty());
}

TEST_CASE("marks of a window later are not those of the PSN at the same place") {
  Scoreboard board(5);
  REQUIRE(board.window() == 8);
  CHECK(board.miss(kFirst, kFirst + 8));
  CHECK(board.miss(kFirst + 3, kFirst + 8));
  CHECK(board.take(kFirst, kFirst + 1) == 0);  // acknowledged: the window moves on
  CHECK(board.miss(kFirst + 8, kFirst + 9));
  CHECK(board.first_missing(kFirst + 1) == kFirst + 3);
  CHECK(board.missing(kFirst + 3));
  CHECK_FALSE(board.missing(kFirst + 1));
  board.on_repeated(kFirst + 3, kFirst + 4, kFirst + 9);
  CHECK(board.has_missing());
  CHECK(board.first_missing(kFirst + 1) == kFirst + 8);
  CHECK(board.take(kFirst + 1, kFirst + 9) == 0);
  CHECK_FALSE(board.has_missing());
  CHECK(board.empty());
}

TEST_CASE("what is found missing later may lie before the first, and marks behind stay") {
  Scoreboard board(8);
  CHECK(board.miss(kFirst + 3, kFirst + 8));
  CHECK(board.first_missing(kFirst) == kFirst + 3);
  CHECK(board.miss(kFirst + 1, kFirst + 8));
  CHECK(board.first_missing(kFirst) == kFirst + 1);
  board.on_repeated(kFirst + 1, kFirst + 2, kFirst + 8);
  CHECK(board.hold(kFirst));
  CHECK(board.take(kFirst, kFirst + 3) == 1);
  CHECK(board.missing(kFirst + 3));
  CHECK(board.take(kFirst + 3, kFirst + 3) == 0);
  CHECK(board.missing(kFirst + 3));
}

TEST_CASE("what was sent again is lost once more only by what left later, over the wrap") {
  Scoreboard board(8);
  CHECK(board.miss(kFirst, kFirst + 1));
  board.on_repeated(kFirst, kFirst + 1, kFirst + 1);
  CHECK_FALSE(board.miss(kFirst, kFirst));
  CHECK(board.miss(kFirst, kFirst + 6));
  board.on_repeated(kFirst, kFirst + 1, kFirst + 3);
  board.on_repeated(kFirst, kFirst + 1, kFirst + 6);  // twice, before an answer: the later counts
  CHECK_FALSE(board.miss(kFirst, kFirst + 6));
  CHECK(board.miss(kFirst, kFirst + 7));
  CHECK(board.take(kFirst, kFirst + 1) == 0);
  CHECK(board.miss(kFirst, kFirst));  // a new packet at this place was not sent again
}

TEST_CASE("what is missing for a whole delay is lost") {
  const Duration delay = Duration::from_us(40);
  const Instant start = Instant{} + Duration::from_us(5);
  Holes holes;
  holes.open(Psn{0xFFFFFF});
  CHECK_FALSE(holes.advance(start, delay));
  holes.on_early(Psn{0}, Psn{1}, start, delay, false);
  holes.on_early(Psn{3}, Psn{4}, start + Duration::from_us(10), delay, false);
  CHECK_FALSE(holes.advance(start + Duration::from_us(39), delay));
  CHECK(holes.advance(start + delay, delay));
  CHECK(holes.lost(Psn{0}));
  CHECK_FALSE(holes.lost(Psn{1}));
  CHECK(holes.advance_at == start + delay + delay);  // what came meanwhile is next
  CHECK(holes.advance(holes.advance_at, delay));
  CHECK(holes.lost_end == Psn{4});
  CHECK(holes.advance_at.is_never());
  holes.on_early(Psn{2}, Psn{3}, start, delay, false);  // nothing new
  CHECK(holes.advance_at.is_never());
}

TEST_CASE("behind a path that keeps the order, three later requests tell that one is lost") {
  const Duration delay = Duration::from_us(40);
  const Instant start = Instant{} + Duration::from_us(5);
  const bool in_order = GENERATE(true, false);
  Holes holes;
  holes.open(Psn{0xFFFFFF});
  holes.on_early(Psn{0}, Psn{2}, start, delay, in_order);  // a READ of two packets
  holes.on_early(Psn{3}, Psn{4}, start, delay, in_order);
  holes.on_early(Psn{3}, Psn{4}, start, delay, in_order);  // again
  CHECK_FALSE(holes.lost(Psn{0xFFFFFF}));
  holes.on_early(Psn{4}, Psn{5}, start, delay, in_order);
  CHECK(holes.lost(Psn{0xFFFFFF}) == in_order);
  CHECK_FALSE(holes.lost(Psn{2}));  // two requests are behind it
  holes.on_early(Psn{5}, Psn{6}, start, delay, in_order);
  CHECK(holes.lost(Psn{2}) == in_order);
  CHECK(holes.advance_at == start + delay);  // for the last ones
  CHECK(holes.advance(start + delay, delay));
}

TEST_CASE("holes that are opened anew know nothing of the ones before") {
  const Duration delay = Duration::from_us(40);
  Holes holes;
  holes.open(Psn{10});
  holes.on_early(Psn{19}, Psn{20}, Instant{}, delay, false);
  CHECK(holes.advance_at == Instant{} + delay);
  CHECK_FALSE(holes.lost(Psn{10}));
  holes.open(Psn{30});
  CHECK(holes.advance_at.is_never());
  CHECK(holes.seen_end == Psn{30});
  CHECK_FALSE(holes.lost(Psn{30}));
  holes.on_early(Psn{28}, Psn{29}, Instant{}, delay, false);  // a duplicate from before
  CHECK(holes.advance_at.is_never());
  CHECK(holes.seen_end == Psn{30});
  holes.on_early(Psn{30}, Psn{31}, Instant{}, delay, false);
  CHECK(holes.advance(Instant{} + delay, delay));
  CHECK(holes.lost(Psn{30}));
  CHECK_FALSE(holes.lost(Psn{31}));
}

TEST_CASE("a probe leaves after the usual round trip and its slack, and backs off after eight") {
  RoundTrip rtt;
  CHECK_FALSE(rtt.known());
  rtt.sample(Duration::from_us(100));
  CHECK(rtt.probe_after(0) == Duration::from_us(300));  // variation 50 us
  CHECK(rtt.probe_after(7) == Duration::from_us(300) * 8);
  CHECK(rtt.probe_after(8) == Duration::from_us(300) * 16);
  for (int i = 0; i < 200; ++i) rtt.sample(Duration::from_us(100));
  CHECK(rtt.probe_after(0).ps < Duration::from_us(152).ps);
  for (int i = 0; i < 200; ++i) rtt.sample(Duration{});
  CHECK(rtt.probe_after(0).ps > Duration::from_ns(RoundTrip::kLeastNs).ps);
  CHECK(rtt.probe_after(0).ps < Duration::from_ns(RoundTrip::kLeastNs + 10).ps);
  CHECK(rtt.known());
}

TEST_CASE("a round trip is smoothed by an eighth and its variation by a quarter, as RFC 6298") {
  RoundTrip rtt;
  rtt.sample(Duration::from_us(80));
  rtt.sample(Duration::from_us(160));
  // 80 + 80/8 = 90 us; 40 + (80 - 40)/4 = 50 us, four times.
  CHECK(rtt.probe_after(0) == Duration::from_us(290));
  rtt.sample(Duration::from_us(10));
  // 90 - 80/8 = 80 us; 50 + (80 - 50)/4 = 57.5 us.
  CHECK(rtt.probe_after(0) == Duration::from_us(310));
  CHECK(rtt.probe_after(RoundTrip::kMostProbes - 1) == Duration::from_us(310) * (1 << 15));
  // Half a round trip is the least slack where it hardly varies.
  for (int i = 0; i < 100; ++i) rtt.sample(Duration::from_us(800));
  CHECK(rtt.probe_after(0).us() >= 1198);
  CHECK(rtt.probe_after(0).us() <= 1200);
  RoundTrip longest;
  longest.sample(Duration::from_s(5));  // counts as 100 ms
  CHECK(longest.probe_after(0) == Duration::from_ms(300));
  RoundTrip least;
  least.sample(Duration::from_ps(1));  // a known round trip is at least 1 ns
  CHECK(least.known());
  least.sample(Duration::from_ps(1));
  CHECK(least.probe_after(0) == Duration::from_ns(1 + RoundTrip::kLeastNs));
}

}  // namespace
}  // namespace weft::test
