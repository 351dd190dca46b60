// SPDX-License-Identifier: BSD-3-Clause
// Sleeping on completion queues: arming, descriptors, solicited events, time limits, and no wake-up
// lost in ten thousand rounds between two threads.
#include <poll.h>

#include <atomic>
#include <thread>

#include "tests/conformance/fixture.hpp"
#include "tests/conformance/steps.hpp"

namespace weft {
namespace {

using namespace test;

// Answers each SEND with a SEND, sleeping in wait(). Ends when `rounds` are done or one fails.
void echo(const Side& side, const QueuePair& qp, const Buffer& buffer, uint64_t rounds, bool starts,
          std::atomic<uint64_t>& done) {
  const Sge out = buffer.sge(0, 8), in = buffer.sge(64, 8);
  if (starts && !qp.post_send({.id = 1, .flags = SendFlags::none, .sges = {&out, 1}})) return;
  while (done.load() < rounds) {
    Completion c;
    if (side.cq.wait({&c, 1}, Duration::from_s(20)) == 0 || c.status != Status::success) return;
    ++done;
    if (!qp.post_recv({.id = 2, .sges = {&in, 1}})) return;
    if (done.load() >= rounds && starts) return;
    if (!qp.post_send({.id = 1, .flags = SendFlags::none, .sges = {&out, 1}})) return;
  }
}

void ping_pong(Wire wire) {
  const bool plain = wire == Wire::udp || wire == Wire::shm;
  const uint64_t rounds = scaled(plain ? 10'000 : 1000);
  Pair p(wire);
  const Buffer near(p.a, 128), far(p.b, 128);
  const Sge in_a = near.sge(64, 8), in_b = far.sge(64, 8);
  for (int i = 0; i < 4; ++i) {
    REQUIRE(p.qa.post_recv({.id = 2, .sges = {&in_a, 1}}));
    REQUIRE(p.qb.post_recv({.id = 2, .sges = {&in_b, 1}}));
  }
  std::atomic<uint64_t> done_a{0}, done_b{0};
  const int64_t begin = clock_ns();
  std::jthread other([&] { echo(p.b, p.qb, far, rounds, false, done_b); });
  echo(p.a, p.qa, near, rounds, true, done_a);
  other.join();
  CHECK(done_a == rounds);
  CHECK(done_b == rounds);
  const double us = static_cast<double>(clock_ns() - begin) / 1e3;
  std::printf("%.1f us a round trip, both sides sleeping\n", us / static_cast<double>(rounds));
}
WEFT_ON_EACH_WIRE_AND_SRD(ping_pong, "no wake-up is lost between two sleeping threads (C-OPS-91)")

void cq_descriptor(Wire wire) {
  Pair p(wire);
  const Buffer near(p.a, 64), far(p.b, 64);
  const Sge out = near.sge(0, 8), in = far.sge(0, 8);
  CHECK_FALSE(readable(p.b.cq.fd(), 0));
  for (int i = 0; i < 4; ++i) REQUIRE(p.qb.post_recv({.id = 1, .sges = {&in, 1}}));
  Completion c[4];
  REQUIRE(p.qa.post_send({.id = 2, .sges = {&out, 1}}));
  // Neighbour resolution is done. No wait(): it may arm the queue.
  const int64_t limit_ns = clock_ns() + 10'000'000'000;
  while (p.b.cq.poll({c, 1}) == 0) REQUIRE(clock_ns() < limit_ns);
  REQUIRE(p.qa.post_send({.id = 2, .sges = {&out, 1}}));
  CHECK_FALSE(readable(p.b.cq.fd(), 50));  // not armed
  p.b.cq.arm();
  REQUIRE(p.b.cq.poll(c) == 1);  // it arrived before arming: poll again after arming
  REQUIRE(p.qa.post_send({.id = 2, .sges = {&out, 1}}));
  REQUIRE(readable(p.b.cq.fd(), 10'000));
  p.b.cq.acknowledge();
  CHECK_FALSE(readable(p.b.cq.fd(), 0));
  REQUIRE(p.b.cq.poll(c) == 1);
  REQUIRE(p.qa.post_send({.id = 2, .sges = {&out, 1}}));
  CHECK_FALSE(readable(p.b.cq.fd(), 50));  // one arming, one wake-up
  CHECK(p.b.cq.poll(c) == 1);
}
WEFT_ON_EACH_PORT_AND_SRD(cq_descriptor, "an armed queue wakes once (C-OPS-91)")

// resize() keeps completions, in order, in a larger and in a smaller ring.
void resized(Wire wire) {
  Pair p(wire);
  const Buffer near(p.a, 64), far(p.b, 64);
  const uint32_t before = p.a.cq.capacity();
  CHECK(p.a.cq.resize(0).error().code == Code::invalid_argument);
  CHECK(p.a.cq.resize(UINT32_MAX).error().code == Code::invalid_argument);
  CHECK(p.a.cq.capacity() == before);
  for (uint32_t round = 0; round < 10; ++round) {
    post_writes(p, near, far, 100 * round, 13);
    require_completions(p.a.cq, 100 * round, 7);
    const uint32_t capacity = round % 2 == 0 ? 300 : 16;
    const Result<void> done = p.a.cq.resize(capacity);
    if (wire == Wire::ibverbs && !done && done.error().code == Code::not_supported) return;
    REQUIRE(done);
    CHECK(p.a.cq.capacity() >= capacity);
    require_completions(p.a.cq, 100 * round + 7, 6);
  }
}
WEFT_ON_EACH_PORT(resized, "a queue is resized with its completions (C-OPS-91)")

// single_thread=1: no request completes while the queue is small.
void too_small(Wire wire) {
  const std::string spec = device_string(wire) + ",single_thread=1";
  Side a(spec), b(spec);
  const Buffer near(a, 64), far(b, 64);
  const QueuePair from = a.queue_pair(), to = b.queue_pair();
  connect(from, to);
  const Sge out = near.sge(0, 8);
  for (uint64_t id = 0; id < 8; ++id)
    REQUIRE(from.post_send({.id = id,
                            .opcode = Opcode::write,
                            .sges = {&out, 1},
                            .remote_address = far.address(),
                            .rkey = far.region.rkey()}));
  Result<void> shrunk = Result<void>();
  const Deadline deadline;
  while ((shrunk = a.cq.resize(2)) && !deadline.passed()) {
    REQUIRE(a.cq.resize(64));
    a.device.progress();
    b.device.progress();
  }
  REQUIRE_FALSE(shrunk);
  CHECK(shrunk.error().code == Code::busy);
  CHECK(shrunk.error().message.find("poll") != std::string::npos);
  REQUIRE(pump_until({&a, &b}, [&] { return a.got.size() == 8; }));
  for (uint64_t id = 0; id < 8; ++id) CHECK(a.got[id].id == id);
}
// One engine: several need locks.
WEFT_ON_WIRE(too_small, "a queue cannot be resized below its number of completions (C-OPS-91)", udp)
WEFT_ON_WIRE(too_small, "a queue cannot be resized below its number of completions (C-OPS-91)", shm)
WEFT_ON_WIRE(too_small, "a queue cannot be resized below its number of completions (C-OPS-91)",
             dpdk)
WEFT_ON_WIRE(too_small, "a queue cannot be resized below its number of completions (C-OPS-91)",
             af_xdp)

void solicited(Wire wire) {
  Pair p(wire);
  const Buffer near(p.a, 64), far(p.b, 64);
  const Sge out = near.sge(0, 8), in = far.sge(0, 8);
  for (int i = 0; i < 5; ++i) REQUIRE(p.qb.post_recv({.id = 1, .sges = {&in, 1}}));
  p.b.cq.arm(Notify::solicited);
  REQUIRE(p.qa.post_send({.id = 2, .sges = {&out, 1}}));
  const DeviceAttributes& device = p.b.device.attributes();
  if (!device.only_by_cm) CHECK_FALSE(readable(p.b.cq.fd(), 50));  // iWARP: any completion wakes
  const SendFlags wake = SendFlags::signaled | SendFlags::solicited;
  REQUIRE(p.qa.post_send({.id = 3, .flags = wake, .sges = {&out, 1}}));
  CHECK(readable(p.b.cq.fd(), 10'000));
  p.b.cq.acknowledge();
  Completion c[8];
  CHECK(p.b.cq.poll(c) == 2);
  p.b.cq.arm(Notify::solicited);
  REQUIRE(p.qa.post_send({.id = 4,
                          .opcode = device.has_immediate ? Opcode::write_with_imm : Opcode::send,
                          .flags = wake,
                          .sges = {&out, 1},
                          .remote_address = far.address(),
                          .rkey = far.region.rkey()}));
  CHECK(readable(p.b.cq.fd(), 10'000));
  p.b.cq.acknowledge();
  CHECK(p.b.cq.poll(c) == 1);
  p.b.cq.arm(Notify::solicited);
  REQUIRE(p.qb.modify({.state = QpState::err}));  // errors wake too
  CHECK(readable(p.b.cq.fd(), 10'000));
  CHECK(p.b.cq.poll(c) == 2);
}
WEFT_ON_EACH_PORT_AND_SRD(solicited,
                          "solicited completions and errors wake a queue armed for them (C-OPS-90)")

void flush_wakes(Wire wire) {
  Pair p(wire);
  const Buffer far(p.b, 64);
  const Sge in = far.sge(0, 8);
  REQUIRE(p.qb.modify({.state = QpState::err}));
  p.b.cq.arm();
  REQUIRE(p.qb.post_recv({.id = 1, .sges = {&in, 1}}));  // flushed inside the call
  CHECK(readable(p.b.cq.fd(), 5000));
  p.b.cq.acknowledge();
  Completion c;
  REQUIRE(p.b.cq.poll({&c, 1}) == 1);
  CHECK(c.status == Status::flushed);
  p.b.cq.arm();
  REQUIRE(p.qb.post_send({.id = 2, .sges = {&in, 1}}));
  CHECK(readable(p.b.cq.fd(), 5000));
}
WEFT_ON_EACH_PORT_AND_SRD(flush_wakes,
                          "a request flushed at post wakes an armed queue (C-OPS-91 C-STATE-61)")

void limits(Wire wire) {
  const Side side(device_string(wire));
  Completion c;
  int64_t begin = clock_ns();
  CHECK(side.cq.wait({&c, 1}, Duration::from_ms(30)) == 0);
  const double waited = static_cast<double>(clock_ns() - begin) / 1e6;
  CHECK(waited >= 29);
  CHECK(waited < 5000);
  begin = clock_ns();
  CHECK(side.cq.wait({&c, 1}, Duration{}) == 0);
  CHECK(clock_ns() - begin < 5'000'000'000);
  CHECK(side.cq.capacity() >= 1024);
  CHECK(side.device.completion_queue({.capacity = 0}).error().code == Code::invalid_argument);
}
WEFT_ON_EACH_PORT_AND_SRD(limits, "wait ends after its limit")

void two_waiters(Wire wire) {
  Pair p(wire, {.qp = {.max_recv_wr = 512}});
  const Buffer near(p.a, 64), far(p.b, 64);
  const Sge out = near.sge(0, 8), in = far.sge(0, 8);
  const uint64_t total = 400;
  for (uint64_t i = 0; i < total; ++i) REQUIRE(p.qb.post_recv({.id = i, .sges = {&in, 1}}));
  std::atomic<uint64_t> received{0};
  const auto wait_for_all = [&] {
    const Deadline deadline;
    while (received.load() < total && !deadline.passed()) {
      Completion c;
      received += p.b.cq.wait({&c, 1}, Duration::from_ms(100));
    }
  };
  std::jthread first(wait_for_all), second(wait_for_all);
  for (uint64_t i = 0; i < total; ++i) {
    REQUIRE(p.qa.post_send({.id = i, .sges = {&out, 1}}));
    Completion c;
    REQUIRE(p.a.cq.wait({&c, 1}, Duration::from_s(20)) == 1);
    CHECK(c.status == Status::success);
  }
  first.join();
  second.join();
  CHECK(received == total);
}
WEFT_ON_EACH_PORT_AND_SRD(two_waiters,
                          "two threads wait on one queue and share its completions (C-EVT-112)")

void queue_numbers(Wire wire) {
  const Side side(device_string(wire));
  const CompletionQueue second = *side.queue({.capacity = 4});
  const CompletionQueue copy = second;
  CHECK(second.number() != side.cq.number());
  CHECK(second.number() == copy.number());
}
WEFT_ON_EACH_PORT_AND_SRD(queue_numbers, "each completion queue has a number")

}  // namespace
}  // namespace weft
