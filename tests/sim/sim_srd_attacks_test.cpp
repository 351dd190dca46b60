// SPDX-License-Identifier: BSD-3-Clause
// SRD against time, death and forgers: peers that restart under the same number, packets that were
// parked or recorded, acknowledgements that lie, and a network that comes back after long.
#include <vector>

#include "lib/wire/icrc.hpp"
#include "lib/wire/srd_parse.hpp"
#include "tests/sim/pair.hpp"
#include "tests/sim/srd_two.hpp"
#include "tests/support/catch.hpp"

using namespace weft;
using namespace weft::test;
using engine::Count;

namespace {

struct Two : SrdTwo {
  std::vector<SentFrame> recorded;  // what a sent

  explicit Two(const SrdOptions& options = {}) : SrdTwo(options) { record(); }
  void record() {
    a.life().tap->judge = [this](const SentFrame& frame) {
      recorded.push_back(frame);
      return true;
    };
  }
  std::vector<Completion> wait(size_t count, Duration limit = Duration::from_s(10)) {
    std::vector<Completion> all;
    (void)world.run_until(
        [&] {
          for (const Completion& c : a.sent()) all.push_back(c);
          return all.size() >= count;
        },
        limit);
    REQUIRE(all.size() == count);
    return all;
  }
  void add(uint64_t id) {
    const Sge in = a.sge(0, 8);
    SendRequest r = request(Opcode::fetch_add, id, {&in, 1}, 64);
    r.compare_add = 1;
    REQUIRE(a.post(b, r));
  }
  void inject(SrdStation& to, const SentFrame& frame) {
    sim::Packet* const packet = world.network.pool().take();
    packet->path = frame.path;
    packet->length = static_cast<uint32_t>(frame.bytes.size());
    packet->ip_id = frame.ip_id;
    packet->ecn = 0;
    std::memcpy(packet->bytes, frame.bytes.data(), frame.bytes.size());
    to.host().arrive(packet, world.network.now());
    world.run_for(Duration::from_us(5));
  }
  // `frame` with other headers, signed again.
  static SentFrame forged(SentFrame frame, const std::function<void(wire::SrdBase&)>& change) {
    auto& base = *reinterpret_cast<wire::SrdBase*>(frame.bytes.data());
    change(base);
    const wire::OuterHeader outer{&frame.path.source, &frame.path.destination,
                                  frame.path.source_port, frame.path.destination_port, frame.ip_id};
    const auto length = static_cast<uint32_t>(frame.bytes.size());
    const uint32_t crc = wire::icrc(outer, frame.bytes.data(), length);
    std::memcpy(&frame.bytes[length - 4], &crc, 4);
    return frame;
  }
};

}  // namespace

TEST_CASE("replayed packets change nothing, threat:A10 threat:A26") {
  Two t;
  for (uint64_t i = 0; i < 200; ++i) {
    t.add(i);
    t.wait(1);
  }
  CHECK(t.b.word(64) == 200);
  const std::vector<SentFrame> all = t.recorded;
  for (int round = 0; round < 50; ++round)
    for (const SentFrame& frame : all) t.inject(t.b, frame);
  CHECK(t.b.word(64) == 200);
  t.add(1000);
  t.wait(1);
  CHECK(t.b.word(64) == 201);
}

TEST_CASE("packets of a dead incarnation are not executed by or for the next, threat:A25") {
  Two t;
  t.add(0);
  t.wait(1);
  const uint32_t b_key = t.b.key();
  std::vector<SentFrame> old;
  std::swap(old, t.recorded);
  SECTION("the sender restarts") {
    t.a.restart();
    t.record();
    t.add(1);
    CHECK(t.wait(1)[0].status == Status::success);
    CHECK(t.b.word(64) == 2);
    CHECK(t.b.count(Count::streams_replaced) == 1);
    for (int round = 0; round < 100; ++round)
      for (const SentFrame& frame : old) t.inject(t.b, frame);
    CHECK(t.b.word(64) == 2);
    t.add(2);
    CHECK(t.wait(1)[0].status == Status::success);
    CHECK(t.b.word(64) == 3);
  }
  SECTION("the receiver restarts") {
    t.b.restart();
    CHECK(t.b.key() != b_key);
    t.add(1);  // the stream is confirmed: nobody knows whether this was executed
    CHECK(t.wait(1)[0].status == Status::remote_aborted);
    t.add(2);
    CHECK(t.wait(1)[0].status == Status::success);
    CHECK(t.b.word(64) == 2);
    for (int round = 0; round < 100; ++round)
      for (const SentFrame& frame : old) t.inject(t.b, frame);
    CHECK(t.b.word(64) == 2);
  }
}

TEST_CASE("a packet parked since the process before is not executed, threat:A25") {
  Two t;
  Sge out = t.a.sge(0, 64);
  SendRequest send;
  send.sges = {&out, 1};
  REQUIRE(t.b.recv(1, t.b.sge(0, 64)));
  REQUIRE(t.a.post(t.b, send));
  CHECK(t.wait(1)[0].status == Status::success);
  REQUIRE(t.b.received().size() == 1);
  const std::vector<SentFrame> parked = t.recorded;
  t.world.run_for(Duration::from_ms(5));
  t.b.restart();
  REQUIRE(t.b.recv(2, t.b.sge(0, 64)));
  for (int round = 0; round < 10; ++round)
    for (const SentFrame& frame : parked) t.inject(t.b, frame);
  CHECK(t.b.received().empty());
  CHECK(t.b.count(Count::rx_stale_stream) >= 10);
  t.a.restart();  // a new stream of a new process is heard at once
  out = t.a.sge(0, 64);
  REQUIRE(t.a.post(t.b, send));
  CHECK(t.wait(1)[0].status == Status::success);
  CHECK(t.b.received().size() == 1);
}

TEST_CASE("a sender whose clock is behind is asked to prove itself, and heard") {
  Two t;
  t.world.run_for(Duration::from_ms(50));
  t.b.restart();
  t.a.restart(true, -40);
  t.add(1);
  CHECK(t.wait(1)[0].status == Status::success);
  CHECK(t.b.word(64) == 1);
  CHECK(t.b.count(Count::tx_resets) >= 1);
}

TEST_CASE("who restarts again and again is always heard") {
  Two t;
  for (uint64_t i = 1; i <= 20; ++i) {
    t.a.restart();
    t.add(i);
    CHECK(t.wait(1)[0].status == Status::success);
    CHECK(t.b.word(64) == i);
    t.world.run_for(Duration::from_ms(2));
  }
}

TEST_CASE("a READ whose target restarted ends with an error, not never") {
  Two t;
  t.add(0);
  t.wait(1);
  // The request arrives and is acknowledged; the answers are lost, and then the target dies.
  t.b.life().tap->judge = [](const SentFrame& frame) {
    return frame.opcode() != static_cast<uint8_t>(wire::SrdOpcode::read_response);
  };
  const Sge in = t.a.sge(0, 4096);
  REQUIRE(t.a.post(t.b, t.request(Opcode::read, 1, {&in, 1})));
  t.world.run_for(Duration::from_ms(5));
  CHECK(t.a.sent().empty());
  t.b.restart();
  CHECK(t.wait(1)[0].status == Status::remote_aborted);
}

TEST_CASE("a stream is not replaced by one who does not get our answers") {
  Two t;
  t.add(0);
  t.wait(1);
  const SentFrame first = t.recorded.front();
  // A newer epoch, from a forger who can write a's address but reads nothing.
  const SentFrame forged = Two::forged(first, [](wire::SrdBase& base) {
    base.epoch = base.epoch + 100'000;
    base.incarnation = 0u;
  });
  for (int i = 0; i < 100; ++i) t.inject(t.b, forged);
  CHECK(t.b.word(64) == 1);
  CHECK(t.b.count(Count::streams_replaced) == 0);
  t.add(1);
  CHECK(t.wait(1)[0].status == Status::success);
  CHECK(t.b.word(64) == 2);
}

TEST_CASE("acknowledgements of what was never sent are ignored, threat:A09 threat:A11") {
  Two t;
  std::vector<SentFrame> acks;
  t.b.life().tap->judge = [&](const SentFrame& frame) {
    if (frame.opcode() == static_cast<uint8_t>(wire::SrdOpcode::acknowledge)) acks.push_back(frame);
    return true;
  };
  t.add(0);
  t.wait(1);
  REQUIRE_FALSE(acks.empty());
  const SentFrame ghost =
      Two::forged(acks.back(), [](wire::SrdBase& base) { base.sequence = base.sequence + 5; });
  t.a.life().tap->judge = [](const SentFrame&) { return false; };  // nothing gets through
  t.add(1);
  for (int i = 0; i < 100; ++i) t.inject(t.a, ghost);
  for (int i = 0; i < 100; ++i) t.inject(t.a, acks.back());
  for (const SentFrame& frame : t.recorded) t.inject(t.a, frame);  // its own, reflected
  CHECK(t.a.count(Count::rx_ghost_ack) == 100);
  CHECK(t.a.sent().empty());
  t.a.life().tap->judge = nullptr;
  CHECK(t.wait(1)[0].status == Status::success);
  CHECK(t.b.word(64) == 2);
}

TEST_CASE("after five seconds of silence on the wire everything goes on, threat:A27") {
  SrdOptions o;
  o.config.patience = Duration::from_s(30);
  Two t(o);
  t.add(0);
  t.wait(1);
  middleware::FaultOptions hole;
  hole.blackhole = middleware::FaultDirection::both;
  t.b.life().fault->change(hole);
  for (uint64_t i = 1; i <= 10; ++i) t.add(i);
  t.world.run_for(Duration::from_s(5));
  CHECK(t.a.sent().empty());
  t.b.life().fault->change({});
  for (const Completion& c : t.wait(10)) CHECK(c.status == Status::success);
  CHECK(t.b.word(64) == 11);
}

TEST_CASE("a lost packet delays its own message only, threat:A22") {
  Two t;
  t.add(0);
  t.wait(1);
  bool dropped = false;
  t.a.life().tap->judge = [&](const SentFrame& frame) {
    const bool drop = !dropped && frame.opcode() == static_cast<uint8_t>(wire::SrdOpcode::write);
    dropped = dropped || drop;
    return !drop;
  };
  const Sge out = t.a.sge(0, 8);
  for (uint64_t i = 1; i <= 20; ++i)
    REQUIRE(t.a.post(t.b, t.request(Opcode::write, i, {&out, 1}, 1024 + 8 * i)));
  const auto done = t.wait(20);
  CHECK(done.back().id == 1);
  for (size_t i = 0; i < 19; ++i) CHECK(done[i].id == i + 2);
}
