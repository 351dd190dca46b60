// SPDX-License-Identifier: BSD-3-Clause
// SRD against replays: a million packets that were recorded and are sent again, to any
// sent them too; a packet that was parked while 2^24 others passed; processes that stand still.
#include "tests/srd/srd_lone.hpp"
#include "tests/srd/srd_wiretap.hpp"

using namespace weft;
using namespace weft::test;
using transport::Count;

namespace {

constexpr uint32_t kReplays = 1'000'000, kReflections = 100'000;

// All that both have sent, over restarts of both and new streams.
struct History : SrdWiretap {
  std::vector<SentFrame> of_a, of_b;
  bool recording = true;
  uint64_t adds = 0;

  History() { tap(); }
  void tap() {
    for (const bool is_a : {true, false})
      (is_a ? a : b).life().tap->filter = [this, is_a](const SentFrame& frame) {
        if (recording) (is_a ? of_a : of_b).push_back(frame);
        return true;
      };
  }
  void work(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      add(i);
      adds += wait(1)[0].status == Status::success;
    }
    world.run_for(Duration::from_ms(2));  // epochs are milliseconds
  }
  void live() {
    work(50);
    a.restart();
    tap();
    work(50);
    b.restart();
    tap();
    work(50);
    world.run_for(Duration::from_s(2));  // the next stream
    work(50);
    CHECK(adds == 199);  // one was in progress when `b` died
    recording = false;
  }
  // Each of `frames` arrives at `to` again and again, `count` in all.
  void again(SrdStation& to, const std::vector<SentFrame>& frames, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i)
      inject(to, frames[i % frames.size()], Duration::from_ns(i % 16 == 0 ? 500 : 20));
    world.run_for(Duration::from_ms(1));
  }
  void check() {
    CHECK(b.word(64) == adds);
    CHECK(a.sent().empty());
    CHECK(b.received().empty());
    work(1);
    CHECK(b.word(64) == adds);
  }
};

}  // namespace

TEST_CASE("a million replays over restarts and new streams change nothing, threat:A10") {
  History t;
  t.live();
  t.again(t.b, t.of_a, kReplays / 2);
  t.again(t.a, t.of_b, kReplays / 2);
  t.check();
}

TEST_CASE("packets reflected to their sender have no effect, threat:A11") {
  History t;
  t.live();
  t.again(t.a, t.of_a, kReflections / 2);
  t.again(t.b, t.of_b, kReflections / 2);
  t.check();
}

TEST_CASE("a packet delayed by 2^24 others is not executed, threat:A26") {
  SrdLone target;
  const Gid source = Gid::from_ipv4(10, 0, 0, 2);
  constexpr uint64_t kParked = 5, kWrap = uint64_t{1} << 24, kOne = 1;
  const auto give = [&](wire::SrdOpcode opcode, uint64_t sequence) {
    wire::SrdPacket p;
    p.opcode = opcode;
    p.detail = static_cast<uint8_t>(wire::SrdElement::int64);
    p.epoch = 5;
    p.incarnation = target.secret(source, 7);
    p.sequence = sequence;
    p.dest = target.qp->number;
    p.source = QpNum{7u << 16 | 5};
    p.address = reinterpret_cast<uint64_t>(&target.word);
    p.rkey = target.key;
    const bool adds = opcode == wire::SrdOpcode::write_add;
    target.give(source, p, &kOne, adds ? sizeof kOne : 0);
  };
  std::vector<transport::TxFrame> acks(64);
  for (uint64_t i = 0; i < kWrap + kParked; ++i) {
    give(i == kParked ? wire::SrdOpcode::write_add : wire::SrdOpcode::fill, i);
    if (i % 64 == 0) (void)target.engine.transmit(acks, target.now);
  }
  CHECK(target.word == 1);
  give(wire::SrdOpcode::write_add, kParked);
  CHECK(target.word == 1);
  CHECK(target.engine.counters()[Count::rx_duplicates] == 1);
  give(wire::SrdOpcode::write_add, kWrap + kParked);  // the same 24 bits
  CHECK(target.word == 2);
}

TEST_CASE("a suspended process continues, or its requests fail once, threat:A27") {
  SrdOptions options;
  options.config.dead_peer_timeout = Duration::from_s(5);
  SrdTwo t(options);
  const auto add = [&](uint64_t id) {
    const Sge in = t.a.sge(8 * id, 8);
    SendRequest r = t.request(Opcode::fetch_add, id, {&in, 1}, 64);
    r.compare_add = 1;
    REQUIRE(t.a.post(t.b, r));
  };
  uint64_t ok = 0, lost = 0;
  t.a.life().after_turn = [&] {
    for (const Completion& c : t.a.sent()) ++(c.status == Status::success ? ok : lost);
  };
  for (uint64_t i = 0; i < 10; ++i) add(i);
  t.world.run_for(Duration::from_ms(1));
  REQUIRE(ok == 10);
  for (const bool both : {false, true}) {
    t.a.life().pause(Duration::from_s(6));  // longer than its patience
    if (both) t.b.life().pause(Duration::from_s(6));
    for (uint64_t i = 0; i < 10; ++i) add(i);
    t.world.run_for(Duration::from_s(7));
  }
  CHECK(ok == 30);
  CHECK(t.b.word(64) == 30);
  t.b.life().pause(Duration::from_s(4));
  for (uint64_t i = 0; i < 10; ++i) add(i);
  t.world.run_for(Duration::from_s(5));
  CHECK(ok == 40);
  t.b.life().pause(Duration::from_s(8));  // longer than the patience of the other
  for (uint64_t i = 0; i < 10; ++i) add(i);
  t.world.run_for(Duration::from_s(9));
  CHECK(ok == 40);
  CHECK(lost == 10);
  for (uint64_t i = 0; i < 10; ++i) add(i);
  t.world.run_for(Duration::from_s(1));
  CHECK(ok == 50);
  CHECK(lost == 10);
  CHECK(t.b.word(64) >= 50);
  CHECK(t.b.word(64) <= 60);
}
