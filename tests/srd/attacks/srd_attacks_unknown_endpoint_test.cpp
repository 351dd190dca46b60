// SPDX-License-Identifier: BSD-3-Clause
// SRD and unknown endpoints: they execute nothing, cost no memory, and get no more than they sent;
// an answer that does not name the incarnation of the stream ends nothing.
#include "tests/srd/srd_lone.hpp"
#include "tests/srd/srd_wiretap.hpp"
#include "tests/support/scale.hpp"

namespace weft::test {
namespace {

using transport::Count;
using wire::SrdOpcode;

constexpr uint32_t kTheirPrefix = 7;
constexpr uint64_t kOne = 1;

Gid endpoint(uint32_t i) {
  return Gid::from_ipv4(10, static_cast<uint8_t>(1 + (i >> 16)), static_cast<uint8_t>(i >> 8),
                        static_cast<uint8_t>(i));
}

struct Guarded : SrdLone {
  wire::SrdPacket packet(SrdOpcode opcode, uint64_t incarnation, uint64_t sequence = 0) {
    wire::SrdPacket p;
    p.opcode = opcode;
    p.detail = opcode == SrdOpcode::write_add ? 1 : 0;  // int64
    p.dest = qp->number;
    p.source = QpNum{kTheirPrefix << 16 | 5};
    p.epoch = 5;
    p.incarnation = incarnation;
    p.sequence = sequence;
    p.address = reinterpret_cast<uint64_t>(&word);
    p.rkey = key;
    return p;
  }
  void add(const Gid& from, uint64_t incarnation, uint64_t sequence = 0) {
    give(from, packet(SrdOpcode::write_add, incarnation, sequence), &kOne, sizeof kOne);
  }
  // Bytes of what the engine answers.
  size_t answered() {
    transport::TxFrame frames[64];
    size_t bytes = 0;
    while (const size_t n = engine.transmit(frames, now))
      for (size_t i = 0; i < n; ++i) bytes += frames[i].length();
    return bytes;
  }
};

TEST_CASE(
    "unknown endpoints execute nothing, take no memory, get no more than they sent, threat:A17") {
  Guarded t;
  for (uint32_t i = 0; i < 100'000; ++i) {
    wire::SrdHello hello;
    hello.incarnation = i + 1;
    wire::SrdPacket p = t.packet(SrdOpcode::hello, 0);
    p.hello = &hello;
    t.give(endpoint(i), p, nullptr, 0);
    REQUIRE(t.answered() <= sizeof(wire::SrdBase) + sizeof hello);
    t.add(endpoint(i), i + 1);
    t.add(endpoint(i), 0);
    REQUIRE(t.answered() <= sizeof(wire::SrdBase));
  }
  CHECK(t.word == 0);
  CHECK(t.engine.peer_count() == 0);
  const Gid welcomed = endpoint(3);
  t.add(welcomed, t.secret(welcomed, kTheirPrefix));
  CHECK(t.word == 1);
  CHECK(t.engine.peer_count() == 1);
}

TEST_CASE("an incarnation is bound to address, number and time, threat:A17 threat:A25") {
  Guarded t;
  const uint64_t first = t.secret(endpoint(1), kTheirPrefix);
  t.add(endpoint(2), first);
  t.add(endpoint(1), t.secret(endpoint(1), kTheirPrefix + 1));
  CHECK(t.word == 0);
  t.now = t.now + srd::Incarnations::kFresh + Duration::from_us(1);
  t.add(endpoint(1), first);
  CHECK(t.word == 0);
  CHECK(t.engine.peer_count() == 0);
  t.stamp = t.engine.incarnations.take_stamp(t.now);
  t.add(endpoint(1), t.secret(endpoint(1), kTheirPrefix));
  CHECK(t.word == 1);
  t.add(endpoint(1), first, 1);  // what was refused once is refused for ever
  CHECK(t.word == 1);
}

TEST_CASE("wrong keys slow down the peer that names them, and no other, threat:A04") {
  Guarded t;
  const Gid guesser = endpoint(1), honest = endpoint(2);
  const uint64_t known = t.secret(guesser, kTheirPrefix);
  uint64_t sequence = 0;
  t.add(guesser, known, sequence++);
  const auto guess = [&](uint64_t incarnation, uint64_t number) {
    wire::SrdPacket p = t.packet(SrdOpcode::write_add, incarnation, number);
    p.rkey = ~t.key;
    t.give(guesser, p, &kOne, sizeof kOne);
    (void)t.answered();
  };
  // A forger that does not know the incarnation slows down no peer.
  for (uint64_t i = 0; i < 1000; ++i) guess(known + 1 + i, sequence);
  t.add(guesser, known, sequence++);
  REQUIRE(t.word == 2);
  const auto dropped = [&t] { return t.engine.counters()[Count::rx_guesses_dropped]; };
  CHECK(dropped() == 0);
  for (int i = 0; i < srd::KeyGuesses::kMost; ++i) guess(known, sequence++);
  t.add(guesser, known, sequence);
  CHECK(t.word == 2);  // a right key is not looked at either
  CHECK(dropped() == 1);
  t.add(honest, t.secret(honest, kTheirPrefix));
  CHECK(t.word == 3);
  t.now = t.now + srd::KeyGuesses::kForgiveAfter;
  t.add(guesser, known, sequence);
  CHECK(t.word == 4);
}

TEST_CASE("a SEND must name the Q_Key of its queue pair before it takes a receive") {
  SrdWiretap t;
  QueuePairAttributes change;
  change.qkey = 0x1234;
  REQUIRE(t.b.engine().modify_qp(t.b.qp(), change));
  REQUIRE(t.b.recv(1, t.b.sge(0, 64)));
  const Sge out = t.a.sge(0, 64);
  SendRequest send = t.request(Opcode::send, 1, {&out, 1});
  for (const uint32_t wrong : {0u, 0x1235u}) {
    send.remote_qkey = wrong;
    REQUIRE(t.a.post(t.b, send));
    CHECK(t.wait(1)[0].status == Status::remote_invalid_request);
  }
  CHECK(t.b.count(Count::rx_bad_qkey) == 2);
  CHECK(t.b.qp().receives.size() == 1);
  send.remote_qkey = 0x1234;
  REQUIRE(t.a.post(t.b, send));
  CHECK(t.wait(1)[0].status == Status::success);
  CHECK(t.b.received().size() == 1);
}

TEST_CASE("answers that do not name the incarnation end nothing, threat:A07 threat:A08") {
  SrdWiretap t;
  std::vector<SentFrame> answers;
  t.b.life().tap->filter = [&](const SentFrame& frame) {
    if (frame.opcode() == static_cast<uint8_t>(SrdOpcode::acknowledge)) answers.push_back(frame);
    return frame.opcode() == static_cast<uint8_t>(SrdOpcode::welcome);
  };
  t.add(0);  // b executes it, and its acknowledgements are lost
  t.world.run_for(Duration::from_us(20));
  REQUIRE(t.b.word(64) == 1);
  REQUIRE_FALSE(answers.empty());
  const SentFrame first = answers[0];
  for (const SrdOpcode opcode : {SrdOpcode::acknowledge, SrdOpcode::refusal, SrdOpcode::reset,
                                 SrdOpcode::trimmed, SrdOpcode::ready}) {
    for (const uint64_t change : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 40}) {
      SentFrame frame = first;
      if (opcode != SrdOpcode::acknowledge) frame.bytes.resize(sizeof(wire::SrdBase) + 4);
      t.inject(t.a, forged(frame, [&](wire::SrdBase& base) {
                 if (opcode != SrdOpcode::acknowledge) base.sequence = base.sequence - 1;
                 base.opcode = static_cast<uint8_t>(opcode);
                 base.detail = static_cast<uint8_t>(wire::SrdReason::access);
                 base.incarnation = change == 0 ? 0 : base.incarnation ^ change;
               }));
    }
  }
  CHECK(t.a.count(Count::rx_other_incarnation) == 15);
  CHECK(t.a.sent().empty());
  t.b.life().tap->filter = nullptr;
  CHECK(t.wait(1)[0].status == Status::success);
  CHECK(t.b.word(64) == 1);
}

TEST_CASE("a million forged refusals with random incarnations end nothing, threat:A08") {
  SrdWiretap t;
  std::vector<SentFrame> answers;
  t.b.life().tap->filter = [&](const SentFrame& frame) {
    if (frame.opcode() == static_cast<uint8_t>(SrdOpcode::acknowledge)) answers.push_back(frame);
    return frame.opcode() == static_cast<uint8_t>(SrdOpcode::welcome);
  };
  t.add(0);
  t.world.run_for(Duration::from_us(20));
  REQUIRE_FALSE(answers.empty());
  SentFrame refusal = answers[0];
  refusal.bytes.resize(sizeof(wire::SrdBase) + 4);
  base::Random random(1);
  const uint64_t tries = scaled(1'000'000);
  for (uint64_t i = 0; i < tries; ++i)
    t.inject(t.a,
             forged(refusal,
                    [&](wire::SrdBase& base) {
                      base.sequence = base.sequence - 1;
                      base.opcode = static_cast<uint8_t>(SrdOpcode::refusal);
                      base.detail = static_cast<uint8_t>(wire::SrdReason::access);
                      base.incarnation = random.next();
                    }),
             Duration::from_ns(i % 16 == 0 ? 100 : 1));
  t.world.run_for(Duration::from_us(5));
  CHECK(t.a.count(Count::rx_other_incarnation) == tries);
  CHECK(t.a.sent().empty());
  t.b.life().tap->filter = nullptr;
  CHECK(t.wait(1)[0].status == Status::success);
  CHECK(t.b.word(64) == 1);
}

TEST_CASE("a welcome that does not repeat our hello is not believed, threat:A07") {
  SrdWiretap t;
  std::vector<SentFrame> welcomes;
  t.b.life().tap->filter = [&](const SentFrame& frame) {
    welcomes.push_back(frame);
    return false;
  };
  t.add(0);
  t.world.run_for(Duration::from_us(20));
  REQUIRE_FALSE(welcomes.empty());
  for (const uint64_t bit : {uint64_t{1}, uint64_t{1} << 63})
    t.inject(t.a, forged(welcomes[0], [bit](wire::SrdBase& base) {
               base.incarnation = base.incarnation ^ bit;
             }));
  CHECK(t.a.engine().peer(0)->tx.incarnation() == 0);
  CHECK(t.recorded.empty());
  t.b.life().tap->filter = nullptr;
  CHECK(t.wait(1)[0].status == Status::success);
  CHECK(t.b.word(64) == 1);
}

}  // namespace
}  // namespace weft::test
