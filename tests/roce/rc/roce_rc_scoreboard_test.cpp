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

TEST_CASE("what is missing for a whole delay is lost") {
  const Duration delay = Duration::from_us(40);
  const Instant start = Instant{} + Duration::from_us(5);
  Holes holes;
  holes.open(Psn{0xFFFFFF});
  CHECK_FALSE(holes.advance(start, delay));
  holes.on_early(Psn{1}, start, delay);
  holes.on_early(Psn{4}, start + Duration::from_us(10), delay);
  CHECK_FALSE(holes.advance(start + Duration::from_us(39), delay));
  CHECK(holes.advance(start + delay, delay));
  CHECK(holes.lost(Psn{0}));
  CHECK_FALSE(holes.lost(Psn{1}));
  CHECK(holes.advance_at == start + delay + delay);  // what came meanwhile is next
  CHECK(holes.advance(holes.advance_at, delay));
  CHECK(holes.lost_end == Psn{4});
  CHECK(holes.advance_at.is_never());
  holes.on_early(Psn{3}, start, delay);  // nothing new
  CHECK(holes.advance_at.is_never());
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
  CHECK(rtt.known());
}

}  // namespace
}  // namespace weft::test
