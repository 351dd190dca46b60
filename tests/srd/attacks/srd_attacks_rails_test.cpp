// SPDX-License-Identifier: BSD-3-Clause
// SRD's further addresses against forgers: claiming the address of another peer diverts nothing of
// what it sends, no peer directs our packets to a third address, and memory stays bounded.
#include <vector>

#include "tests/srd/srd_lone.hpp"

namespace weft::test {
namespace {

using transport::Count;
using wire::SrdOpcode;

constexpr uint32_t kBlock = 1;
Gid host(uint8_t last) { return Gid::from_ipv4(10, 0, 0, last); }

// An engine, and peers that exist only in the packets that it gets.
struct Target : SrdLone {
  using SrdLone::SrdLone;

  wire::SrdPacket packet(SrdOpcode opcode, uint64_t incarnation, uint64_t sequence = 0) {
    wire::SrdPacket p;
    p.opcode = opcode;
    p.dest = QpNum{qp->number.value & 0xFF0000};
    p.source = QpNum{kBlock << 16};
    p.epoch = 5;
    p.incarnation = incarnation;
    p.sequence = sequence;
    return p;
  }
  uint64_t secret(const Gid& of) { return SrdLone::secret(of, kBlock); }
  // A validated peer, which knows our incarnation.
  const srd::Peer& meet(const Gid& peer) {
    give(peer, packet(SrdOpcode::fill, secret(peer)), nullptr, 0);
    return *engine.peer(static_cast<uint32_t>(engine.peer_count()) - 1);
  }
  void give_rails(const Gid& from, wire::SrdPacket p, const Gid& primary, bool answers,
                  uint32_t challenge, const std::vector<Gid>& further) {
    struct {
      wire::SrdRails body;
      Gid list[8];
    } rails;
    rails.body.primary = primary;
    rails.body.challenge = challenge;
    rails.body.answers = answers ? 1 : 0;
    rails.body.count = static_cast<uint8_t>(further.size());
    std::copy(further.begin(), further.end(), rails.list);
    p.opcode = SrdOpcode::rails;
    give(from, p, &rails, sizeof rails.body + further.size() * sizeof(Gid));
  }
  void ask(const Gid& from, const Gid& primary, uint64_t incarnation,
           const std::vector<Gid>& further) {
    give_rails(from, packet(SrdOpcode::rails, incarnation), primary, false, 77, further);
  }
  uint64_t executed(uint32_t peer) { return engine.peer(peer)->rx.window.next(); }
};

TEST_CASE("addresses are accepted from a validated peer only, threat:A16 threat:A25") {
  Target t;
  const Gid peer = host(2), further = host(3);
  t.meet(peer);
  t.ask(further, peer, 0, {further});
  t.ask(further, peer, t.secret(peer) + 1, {further});
  t.ask(further, peer, t.secret(further), {further});
  CHECK(t.engine.counters()[Count::rx_other_incarnation] == 3);
  t.ask(further, host(9), t.secret(host(9)), {further});  // no known peer
  CHECK(t.engine.counters()[Count::rx_unknown_peer] == 1);
  CHECK(t.engine.aliases.size() == 0);
  CHECK(t.engine.peer_count() == 1);
  t.ask(host(4), peer, t.secret(peer), {further});  // from an address that it does not name
  CHECK(t.engine.counters()[Count::rx_bad_source] == 1);
  t.ask(further, peer, t.secret(peer), {further});
  CHECK(t.engine.aliases.size() == 1);
}

TEST_CASE("claiming another peer's address diverts nothing of its stream, threat:A16 threat:A25") {
  Target t;
  const Gid villain = host(2), victim = host(3), late = host(4);
  t.meet(villain);
  t.meet(victim);
  t.ask(villain, villain, t.secret(villain), {victim, late});
  REQUIRE(t.engine.aliases.size() == 2);
  // What the victims send is theirs, whether they were known before or not.
  for (uint64_t i = 1; i < 10; ++i)
    t.give(victim, t.packet(SrdOpcode::fill, t.secret(victim), i), nullptr, 0);
  t.give(late, t.packet(SrdOpcode::fill, t.secret(late)), nullptr, 0);
  CHECK(t.executed(0) == 1);
  CHECK(t.executed(1) == 10);
  REQUIRE(t.engine.peer_count() == 3);
  CHECK(t.engine.peer(2)->address == late);
  CHECK(t.engine.peer(1)->rx.echo.route == srd::Route{0, 0});
  // And what the villain sends from there is its own, of which nothing goes to the victims.
  t.give(victim, t.packet(SrdOpcode::fill, t.secret(villain), 1), nullptr, 0);
  CHECK(t.executed(0) == 2);
  CHECK(t.executed(1) == 10);
}

TEST_CASE("another peer at a peer's further address does not cut it off, threat:A17") {
  Target t;
  const Gid peer = host(2), further = host(3);
  t.meet(peer);
  t.ask(further, peer, t.secret(peer), {further});
  t.give(further, t.packet(SrdOpcode::fill, t.secret(further)), nullptr, 0);
  REQUIRE(t.engine.peer_count() == 2);
  t.give(further, t.packet(SrdOpcode::fill, t.secret(peer), 1), nullptr, 0);
  CHECK(t.executed(0) == 2);
  CHECK(t.executed(1) == 1);
}

TEST_CASE("an incarnation is accepted only in packets of its direction, threat:A25") {
  Target t;
  const Gid peer = host(2), further = host(3);
  t.meet(peer);
  t.ask(further, peer, t.secret(peer), {further});
  // What answers name is the peer's own number, not ours for it.
  wire::SrdPacket p = t.packet(SrdOpcode::reset, t.secret(peer));
  t.give(further, p, nullptr, 0);
  CHECK(t.engine.counters()[Count::rx_unknown_peer] == 1);
}

TEST_CASE("a peer that announces new addresses forever takes no more memory, threat:A17") {
  Target t;
  const Gid peer = host(2);
  t.meet(peer);
  for (int round = 0; round < 1000; ++round) {
    std::vector<Gid> list;
    for (int i = 0; i < 7; ++i)
      list.push_back(Gid::from_ipv4(10, 1, static_cast<uint8_t>(round), static_cast<uint8_t>(i)));
    t.ask(list[0], peer, t.secret(peer), list);
    CHECK(t.engine.aliases.size() == 7);
  }
  CHECK(t.engine.peer_count() == 1);
}

TEST_CASE("further addresses are removed with their peer, threat:A17") {
  srd::Config config;
  config.max_peers = 8;
  Target t(16, config);
  for (uint8_t i = 0; i < 100; ++i) {
    t.now = t.now + Duration::from_s(10);
    t.stamp = t.engine.incarnations.take_stamp(t.now);
    wire::SrdPacket p = t.packet(SrdOpcode::fill, t.secret(host(i)));
    t.give(host(i), p, nullptr, 0);
    p.opcode = SrdOpcode::rails;
    const Gid further = Gid::from_ipv4(10, 1, 0, i);
    t.give_rails(further, p, host(i), false, 1, {further});
    transport::TxFrame frames[64];
    (void)t.engine.transmit(frames, t.now);  // no acknowledgement is queued any more
    REQUIRE(t.engine.aliases.size() <= 8);
  }
  CHECK(t.engine.counters()[Count::peers_forgotten] == 92);
}

// A target that sends to a villain, which names a third one as its further address.
struct Redirect : Target {
  static constexpr uint64_t kIncarnation = 4711;
  const Gid villain = host(2), victim = host(3);
  uint64_t sequence = 0;
  uint32_t to_victim = 0;  // data
  uint32_t asked = 0;      // questions
  uint32_t challenge = 0;  // of the last one

  void write() {
    QueuePairAttributes change;
    change.path = AddressVector{.destination = villain};
    change.dest_qpn = QpNum{kBlock << 16 | 7};
    REQUIRE(engine.modify_qp(*qp, change));
    const Sge sge{reinterpret_cast<std::byte*>(&word), sizeof word, LKey{key}};
    SendRequest r;
    r.opcode = Opcode::write;
    r.sges = {&sge, 1};
    REQUIRE(engine.post_send(*qp, {&r, 1}, now).accepted == 1);
  }
  Redirect() { welcome(villain, kBlock, kIncarnation); }
  const srd::Peer& peer() { return *engine.peer(0); }
  // What leaves now, and its acknowledgement.
  void turn() {
    now = now + Duration::from_ms(1);
    engine.expire(now);
    transport::TxFrame frames[64];
    const size_t n = engine.transmit(frames, now);
    for (size_t i = 0; i < n; ++i) {
      const bool data = frames[i].head[0] != static_cast<std::byte>(SrdOpcode::rails);
      if (frames[i].path->destination != victim) continue;
      (data ? to_victim : asked) += 1;
      if (data) continue;
      challenge = reinterpret_cast<const wire::SrdRails*>(frames[i].head + sizeof(wire::SrdBase))
                      ->challenge;
    }
    struct {
      wire::SrdAck ack;
    } body;
    wire::SrdPacket p = packet(SrdOpcode::acknowledge, kIncarnation, peer().tx.next);
    p.epoch = peer().tx.epoch;
    give(villain, p, &body, sizeof body);
    Completion done[16];
    (void)cq.pop(done);
  }
  void answer(const Gid& from, uint32_t number) {
    wire::SrdPacket p = packet(SrdOpcode::rails, kIncarnation);
    p.epoch = peer().tx.epoch;
    give_rails(from, p, villain, true, number, {victim});
  }
};

TEST_CASE("a response without a request has no effect, threat:A16") {
  Redirect t;
  t.write();
  t.turn();
  wire::SrdPacket p = t.packet(SrdOpcode::rails, t.kIncarnation);
  p.epoch = t.peer().tx.epoch;
  t.give_rails(t.villain, p, t.villain, true,
               t.engine.incarnations.challenge_for(t.villain, kBlock), {});
  CHECK(t.peer().rails == nullptr);
  CHECK(t.engine.counters()[Count::ways_joined] == 0);
}

TEST_CASE("a peer cannot have us send to an address that is not its own, threat:A16") {
  Redirect t;
  t.write();
  t.turn();
  t.answer(t.villain, 0);
  for (int i = 0; i < 200; ++i) {
    t.write();
    t.turn();
    // It did not get the question, so it guesses; from the right address, as only a forger can.
    t.answer(t.victim, static_cast<uint32_t>(i));
    t.answer(t.victim, t.engine.incarnations.challenge_for(t.villain, kBlock));
  }
  CHECK(t.asked >= 5);
  CHECK(t.asked <= 10);  // ever more seldom
  CHECK(t.to_victim == 0);
  // The receiver of that request may join the route.
  t.answer(t.victim, t.challenge);
  for (int i = 0; i < 10; ++i) {
    t.write();
    t.turn();
  }
  CHECK(t.to_victim > 0);
}

}  // namespace
}  // namespace weft::test
