// SPDX-License-Identifier: BSD-3-Clause
// Moderation of completion events, and timestamps of completions.
#include <poll.h>

#include "tests/conformance/fixture.hpp"
#include "tests/conformance/steps.hpp"

namespace weft {
namespace {

using namespace test;

// Without wait(), which would arm the queue.
void poll_one(const CompletionQueue& cq, uint64_t id) {
  Completion c;
  const Deadline deadline;
  while (cq.poll({&c, 1}) == 0) REQUIRE_FALSE(deadline.passed());
  CHECK(c.id == id);
}

// A moderated queue wakes at the count, and not before; polling sees each completion at once. The
// period is the longest there is, so that it does not end while the count is tried.
void woken_at_count(Wire wire) {
  Pair p(wire);
  const Buffer near(p.a, 64), far(p.b, 64);
  const Result<void> moderated = p.a.cq.moderate({4, Duration::from_us(65'535)});
  if (wire == Wire::ibverbs && !moderated) {  // rxe
    CHECK(moderated.error().code == Code::not_supported);
    WARN(moderated.error().message);
    return;
  }
  REQUIRE(moderated);
  Completion c;
  int early = 0;
  for (uint64_t round = 0; round < 20; ++round) {
    p.a.cq.arm();
    CHECK(p.a.cq.poll({&c, 1}) == 0);
    post_writes(p, near, far, 10 * round, 3);
    early += readable(p.a.cq.fd(), 5) ? 1 : 0;  // unless the machine stalls for 60 ms
    post_writes(p, near, far, 10 * round + 3, 1);
    CHECK(readable(p.a.cq.fd(), 10'000));
    p.a.cq.acknowledge();
    for (uint64_t i = 0; i < 4; ++i) poll_one(p.a.cq, 10 * round + i);
  }
  CHECK(early < 10);
  post_writes(p, near, far, 1000, 1);  // armed or not, a poll finds it
  poll_one(p.a.cq, 1000);
}
WEFT_ON_EACH_PORT_AND_SRD(woken_at_count, "a moderated queue wakes at its count (C-OPS-91)")

// Fewer than that wake it when the period is over; moderation that ends releases what it holds
// back.
void woken_at_period(Wire wire) {
  Pair p(wire);
  const Buffer near(p.a, 64), far(p.b, 64);
  REQUIRE(p.a.cq.moderate({1000, Duration::from_ms(20)}));
  p.a.cq.arm();
  const int64_t begin = clock_ns();
  post_writes(p, near, far, 0, 3);
  REQUIRE(readable(p.a.cq.fd(), 10'000));
  CHECK(clock_ns() - begin >= 19'000'000);
  p.a.cq.acknowledge();
  require_completions(p.a.cq, 0, 3);
  post_writes(p, near, far, 3, 1);  // wait() sleeps no longer than that either
  require_completions(p.a.cq, 3, 1);
  REQUIRE(p.a.cq.moderate({1000, Duration::from_us(65'535)}));
  for (uint64_t i = 0; i < 2; ++i) {
    p.a.cq.arm();
    post_writes(p, near, far, 4 + i, 1);
    if (i == 1) REQUIRE(p.a.cq.moderate({}));
    CHECK(readable(p.a.cq.fd(), 10'000));
    p.a.cq.acknowledge();
    require_completions(p.a.cq, 4 + i, 1);
  }
}
WEFT_ON_OUR_PORTS(woken_at_period, "a moderated queue wakes when its period is over (C-OPS-91)")

// Armed for solicited completions, only those are counted; errors count too.
void moderated_solicited(Wire wire) {
  Pair p(wire);
  const Buffer near(p.a, 64), far(p.b, 64);
  const Sge out = near.sge(0, 8), in = far.sge(0, 8);
  for (int i = 0; i < 8; ++i) REQUIRE(p.qb.post_recv({.id = 1, .sges = {&in, 1}}));
  REQUIRE(p.b.cq.moderate({2, Duration::from_us(65'535)}));
  p.b.cq.arm(Notify::solicited);
  for (int i = 0; i < 4; ++i) REQUIRE(p.qa.post_send({.id = 2, .sges = {&out, 1}}));
  CHECK_FALSE(readable(p.b.cq.fd(), 200));  // no period runs for what is not solicited
  const SendFlags wake = SendFlags::signaled | SendFlags::solicited;
  for (int i = 0; i < 2; ++i) REQUIRE(p.qa.post_send({.id = 3, .flags = wake, .sges = {&out, 1}}));
  CHECK(readable(p.b.cq.fd(), 10'000));
  p.b.cq.acknowledge();
  Completion c[8];
  CHECK(p.b.cq.poll(c) == 6);
  p.b.cq.arm(Notify::solicited);
  REQUIRE(p.qb.modify({.state = QpState::err}));  // two receives are flushed
  CHECK(readable(p.b.cq.fd(), 10'000));
  CHECK(p.b.cq.poll(c) == 2);
}
WEFT_ON_OUR_PORTS(moderated_solicited, "moderation counts what would wake (C-OPS-90)")

void wrong_moderation(Wire wire) {
  const Side side(device_string(wire));
  for (const CqModeration& wrong :
       {CqModeration{4, Duration{}}, CqModeration{0, Duration::from_us(5)},
        CqModeration{4, Duration::from_us(65'536)}, CqModeration{4, Duration::from_us(-1)},
        CqModeration{4, Duration::from_ns(1500)}})
    CHECK(side.cq.moderate(wrong).error().code == Code::invalid_argument);
}
WEFT_ON_EACH_PORT_AND_SRD(wrong_moderation, "a moderation that would sleep for ever is refused")

// On the device's clock, in order, and within the time in which they were made.
void timestamps(Wire wire) {
  Pair p(wire);
  const Buffer near(p.a, 64), far(p.b, 64);
  const CompletionQueue timed = *p.a.queue({.capacity = 64, .timestamps = true});
  const QueuePair from = *p.a.pd.queue_pair({.send_cq = timed, .recv_cq = timed});
  const QueuePair to = p.b.queue_pair();
  connect(from, to);
  const Sge out = near.sge(0, 8);
  Instant last = p.a.device.now();
  for (uint64_t round = 0; round < 10; ++round) {
    const Instant begin = p.a.device.now();
    for (uint64_t i = 0; i < 3; ++i)
      REQUIRE(from.post_send({.id = 3 * round + i,
                              .opcode = Opcode::write,
                              .sges = {&out, 1},
                              .remote_address = far.address(),
                              .rkey = far.region.rkey()}));
    size_t got = 0;
    Completion c[5];
    Instant at[4];  // shorter: no more than that
    const Deadline deadline;
    if (round == 5) REQUIRE(timed.resize(300));  // with what is in it
    while (got < 3 && !deadline.passed()) {
      const size_t n = timed.poll(c, at);
      for (size_t i = 0; i < n; ++i) {
        CHECK(c[i].id == 3 * round + got++);
        CHECK(at[i] >= last);
        CHECK(at[i] >= begin);
        CHECK(at[i] <= p.a.device.now());
        last = at[i];
      }
    }
    REQUIRE(got == 3);
  }
  REQUIRE(from.modify({.state = QpState::err}));
  const Instant before = p.a.device.now();
  const Sge in = near.sge(8, 8);
  REQUIRE(from.post_recv({.id = 99, .sges = {&in, 1}}));  // flushed inside the call
  Completion c;
  Instant at;
  REQUIRE(timed.poll({&c, 1}, {&at, 1}) == 1);
  CHECK(c.status == Status::flushed);
  CHECK(at >= before);
  CHECK(timed.poll({&c, 1}, {}) == 0);
  post_writes(p, near, far, 7, 1);
  const Deadline deadline;
  while (p.a.cq.poll({&c, 1}, {&at, 1}) == 0 && !deadline.passed()) {
  }
  CHECK(c.id == 7);
  CHECK(at.is_never());  // a queue without times
}
WEFT_ON_OUR_PORTS(timestamps, "completions have times of the device's clock")

void no_timestamps(Wire wire) {
  const Side side(device_string(wire));
  const auto timed = side.queue({.capacity = 64, .timestamps = true});
  REQUIRE_FALSE(timed);
  CHECK(timed.error().code == Code::not_supported);
  CHECK(timed.error().message.find("timestamps") != std::string::npos);
}
WEFT_ON_IBVERBS(no_timestamps, "completion timestamps are refused")

}  // namespace
}  // namespace weft
