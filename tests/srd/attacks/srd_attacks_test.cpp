// SPDX-License-Identifier: BSD-3-Clause
// SRD against time, death and forgers: peers that restart under the same number, packets that were
// parked or recorded, acknowledgements that lie, and a network that comes back after long.
#include <vector>

#include "tests/srd/srd_wiretap.hpp"

using namespace weft;
using namespace weft::test;
using transport::Count;
using Two = SrdWiretap;

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

TEST_CASE("packets from or to a dead incarnation are not executed by the next, threat:A25") {
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
    t.add(1);  // the stream is confirmed: it is not known whether this was executed
    CHECK(t.wait(1)[0].status == Status::remote_aborted);
    t.add(2);
    CHECK(t.wait(1)[0].status == Status::success);
    CHECK(t.b.word(64) == 2);
    for (int round = 0; round < 100; ++round)
      for (const SentFrame& frame : old) t.inject(t.b, frame);
    CHECK(t.b.word(64) == 2);
  }
}

TEST_CASE("a packet delayed since the previous process is not executed, threat:A25") {
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
  CHECK(t.b.count(Count::rx_other_incarnation) >= 10);
  t.a.restart();  // a new stream of a new process is accepted at once
  out = t.a.sge(0, 64);
  REQUIRE(t.a.post(t.b, send));
  CHECK(t.wait(1)[0].status == Status::success);
  CHECK(t.b.received().size() == 1);
}

TEST_CASE("a peer that restarts again and again is always served") {
  Two t;
  for (uint64_t i = 1; i <= 20; ++i) {
    t.a.restart();
    t.add(i);
    CHECK(t.wait(1)[0].status == Status::success);
    CHECK(t.b.word(64) == i);
    t.world.run_for(Duration::from_ms(2));
  }
}

TEST_CASE("a READ whose target restarted completes with an error") {
  Two t;
  t.add(0);
  t.wait(1);
  // The request arrives and is acknowledged; the answers are lost, and then the target dies.
  t.b.life().tap->filter = [](const SentFrame& frame) {
    return frame.opcode() != static_cast<uint8_t>(wire::SrdOpcode::read_response);
  };
  const Sge in = t.a.sge(0, 4096);
  REQUIRE(t.a.post(t.b, t.request(Opcode::read, 1, {&in, 1})));
  t.world.run_for(Duration::from_ms(5));
  CHECK(t.a.sent().empty());
  t.b.restart();
  CHECK(t.wait(1)[0].status == Status::remote_aborted);
}

TEST_CASE("a stream is not replaced by who does not know the incarnation") {
  Two t;
  t.add(0);
  t.wait(1);
  const SentFrame first = t.recorded.front();
  // A newer epoch, from a forger that spoofs a's address and receives nothing.
  for (const uint64_t change : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 63}) {
    const SentFrame forged = Two::forged(first, [change](wire::SrdBase& base) {
      base.epoch = base.epoch + 100'000;
      base.incarnation = change == 0 ? 0 : base.incarnation ^ change;
    });
    for (int i = 0; i < 100; ++i) t.inject(t.b, forged);
  }
  CHECK(t.b.word(64) == 1);
  CHECK(t.b.count(Count::streams_replaced) == 0);
  CHECK(t.b.count(Count::rx_other_incarnation) == 300);
  t.add(1);
  CHECK(t.wait(1)[0].status == Status::success);
  CHECK(t.b.word(64) == 2);
}

TEST_CASE("acknowledgements of what was never sent are ignored, threat:A09 threat:A11") {
  Two t;
  std::vector<SentFrame> acks;
  t.b.life().tap->filter = [&](const SentFrame& frame) {
    if (frame.opcode() == static_cast<uint8_t>(wire::SrdOpcode::acknowledge)) acks.push_back(frame);
    return true;
  };
  t.add(0);
  t.wait(1);
  REQUIRE_FALSE(acks.empty());
  const SentFrame ghost =
      Two::forged(acks.back(), [](wire::SrdBase& base) { base.sequence = base.sequence + 5; });
  t.a.life().tap->filter = [](const SentFrame&) { return false; };  // nothing gets through
  t.add(1);
  for (int i = 0; i < 100; ++i) t.inject(t.a, ghost);
  for (int i = 0; i < 100; ++i) t.inject(t.a, acks.back());
  for (const SentFrame& frame : t.recorded) t.inject(t.a, frame);  // its own, reflected
  CHECK(t.a.count(Count::rx_ghost_ack) == 100);
  CHECK(t.a.sent().empty());
  t.a.life().tap->filter = nullptr;
  CHECK(t.wait(1)[0].status == Status::success);
  CHECK(t.b.word(64) == 2);
}

TEST_CASE("after five seconds without a packet on the wire all requests complete, threat:A27") {
  SrdOptions o;
  o.config.dead_peer_timeout = Duration::from_s(30);
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
  t.a.life().tap->filter = [&](const SentFrame& frame) {
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

TEST_CASE("acknowledgements repeated 64 times do not open the window, threat:A09") {
  Duration took[2];
  for (const bool split : {false, true}) {
    SrdOptions o;
    o.memory = 16u << 20;
    o.capabilities.in_flight_limit = 64u << 10;  // that is what bounds the rate
    o.link.delay = Duration::from_us(50);
    Two t(o);
    t.a.life().tap->filter = nullptr;
    std::vector<std::pair<Instant, SentFrame>> acks;
    t.b.life().tap->filter = [&](const SentFrame& frame) {
      if (split && frame.opcode() == static_cast<uint8_t>(wire::SrdOpcode::acknowledge))
        acks.emplace_back(t.world.network.now() + Duration::from_us(51), frame);
      return true;
    };
    uint64_t most = 0;
    t.a.life().after_turn = [&] {
      while (!acks.empty() && acks.front().first <= t.world.network.now()) {
        for (int i = 0; i < 63; ++i) t.inject(t.a, acks.front().second, {});
        acks.erase(acks.begin());
      }
      const srd::Peer* const peer = t.a.engine().peer(0);
      if (peer->tx.flight != nullptr) most = std::max(most, peer->tx.flight->flow.in_flight());
    };
    const Instant begun = t.world.network.now();
    const Sge out = t.a.sge(0, 8u << 20);
    REQUIRE(t.a.post(t.b, t.request(Opcode::write, 1, {&out, 1})));
    t.wait(1);
    took[split] = t.world.network.now() - begun;
    CHECK(most > o.capabilities.in_flight_limit / 2);
    CHECK(most <= 2 * o.capabilities.in_flight_limit);
  }
  CHECK(took[1].ps * 100 >= took[0].ps * 95);
}

TEST_CASE("a completion queue that is not polled stops its own queue pair only, threat:A21") {
  Two t;
  transport::CompletionQueue unpolled(8);
  const Result<srd::QueuePair*> made = t.b.engine().create_qp({.type = QpType::srd,
                                                               .domain = SrdStation::kDomain,
                                                               .send_cq = &unpolled,
                                                               .recv_cq = &unpolled});
  REQUIRE(made);
  srd::QueuePair* const stalled = *made;
  QueuePairAttributes change;
  for (const QpState state : {QpState::init, QpState::rtr, QpState::rts}) {
    change.state = state;
    REQUIRE(t.b.engine().modify_qp(*stalled, change));
  }
  const Sge in = t.b.sge(0, 64), out = t.a.sge(0, 64);
  for (uint64_t i = 0; i < 64; ++i) {
    const RecvRequest r{i, {&in, 1}};
    REQUIRE(t.b.engine().post_recv(*stalled, {&r, 1}));
  }
  change = {};
  change.path = AddressVector{.destination = t.b.host().address()};
  change.dest_qpn = stalled->number;
  REQUIRE(t.a.engine().modify_qp(t.a.qp(), change));
  for (uint64_t i = 0; i < 64; ++i) {
    const SendRequest r = t.request(Opcode::send, i, {&out, 1});
    REQUIRE(t.a.engine().post_send(t.a.qp(), {&r, 1}, t.world.network.now()));
  }
  for (uint64_t i = 0; i < 32; ++i) t.add(100 + i);  // to the other one, at the same time
  uint32_t sent = 0, refused = 0, added = 0;
  for (const Completion& c : t.wait(96)) {
    const bool ok = c.status == Status::success;
    if (c.id >= 100)
      added += ok;
    else
      ++(ok ? sent : refused);
  }
  CHECK(added == 32);
  CHECK(t.b.word(64) == 32);
  CHECK(sent + refused == 64);
  CHECK(refused > 0);
  CHECK(stalled->state == QpState::err);
  CHECK(t.b.qp().state == QpState::rts);
  CHECK(t.a.qp().state == QpState::rts);
  CHECK(t.b.count(Count::cq_overruns) >= 1);
  t.b.engine().destroy_qp(stalled);
}
