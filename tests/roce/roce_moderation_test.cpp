// SPDX-License-Identifier: BSD-3-Clause
// Completion queues in virtual time: what a moderated one holds back and until when, and times of
// completions that are the same in every run.
#include "tests/support/catch.hpp"
#include "tests/virtual_time/pair.hpp"

namespace weft::test {
namespace {

constexpr Instant at_us(int64_t us) { return Instant{} + Duration::from_us(us); }

TEST_CASE("a moderated ring fires at its count, or its period after the first") {
  transport::CompletionQueue ring(16);
  const auto push = [&](int64_t us, bool solicited = false, Status status = Status::success) {
    return ring.push({.status = status}, solicited, at_us(us));
  };
  ring.moderate(3, Duration::from_us(10));
  push(1);  // not armed
  CHECK_FALSE(ring.has_fired());
  CHECK(ring.due().is_never());
  ring.arm(Notify::all);
  push(2);
  CHECK_FALSE(ring.take_fired());
  CHECK(ring.due() == at_us(12));  // the period is of the first
  push(5);
  CHECK(ring.due() == at_us(12));
  CHECK_FALSE(ring.take_fired());
  ring.arm(Notify::all);  // another sleeper does not put off the first
  CHECK(ring.due() == at_us(12));
  push(6);
  CHECK(ring.take_fired());
  CHECK(ring.due().is_never());
  push(7);  // one arming, one wake-up
  CHECK_FALSE(ring.has_fired());
  CHECK(ring.due().is_never());

  ring.arm(Notify::solicited);
  push(20);
  CHECK(ring.due().is_never());  // would not wake
  push(21, true);
  push(22, false, Status::flushed);
  CHECK_FALSE(ring.take_fired());
  CHECK(ring.due() == at_us(31));
  push(23, true);
  CHECK(ring.take_fired());

  ring.arm(Notify::all);
  push(30);
  ring.moderate(0, Duration{});  // ends, and releases completions
  CHECK(ring.take_fired());
  ring.arm(Notify::all);
  push(31);
  CHECK(ring.take_fired());
}

// The times of 20 WRITEs over a link of 1 us, each as the application sees it.
std::vector<int64_t> times_of_a_run(uint64_t seed) {
  Pair p({.link = {.delay = Duration::from_us(1)}, .seed = seed});
  transport::CompletionQueue timed(64, true);
  p.a.qp().send_cq = &timed;
  const Sge source = p.station_a.sge(0, 1000);
  for (uint64_t id = 0; id < 20; ++id)
    REQUIRE(p.a.send(p.request(Opcode::write, id, {&source, 1})));
  REQUIRE(p.world.run());
  std::vector<Completion> done(20);
  std::vector<Instant> at(20);
  REQUIRE(timed.pop(done, at.data()) == 20);
  std::vector<int64_t> times;
  for (size_t i = 0; i < 20; ++i) {
    CHECK(done[i].id == i);
    CHECK(done[i].status == Status::success);
    CHECK(at[i] >= at_us(2));  // a round trip at least
    CHECK(at[i] <= p.world.now());
    times.push_back(at[i].ps);
  }
  CHECK(std::is_sorted(times.begin(), times.end()));
  return times;
}

TEST_CASE("times of completions are of virtual time, the same in every run") {
  const std::vector<int64_t> first = times_of_a_run(7);
  CHECK(first == times_of_a_run(7));
  CHECK(first.front() != first.back());
}

TEST_CASE("times go with their completions when a ring is resized") {
  transport::CompletionQueue ring(4, true);
  Completion c;
  Instant at;
  for (uint64_t i = 0; i < 6; ++i) {
    REQUIRE(ring.push({.id = i}, false, at_us(static_cast<int64_t>(i))));
    if (i < 3) REQUIRE(ring.pop({&c, 1}) == 1);
  }
  REQUIRE(ring.resize(9));
  for (uint64_t i = 3; i < 6; ++i) {
    REQUIRE(ring.pop({&c, 1}, &at) == 1);
    CHECK(c.id == i);
    CHECK(at == at_us(static_cast<int64_t>(i)));
  }
  transport::CompletionQueue plain(4);
  REQUIRE(plain.push({.id = 1}, false, at_us(1)));
  REQUIRE(plain.pop({&c, 1}, &at) == 1);
  CHECK(at.is_never());
}

}  // namespace
}  // namespace weft::test
