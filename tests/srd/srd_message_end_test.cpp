// SPDX-License-Identifier: BSD-3-Clause
// What is left of messages that end early: at the sender no bytes in flight, no count and no
// message; at the receiver no assembly, and the receive that the message had taken.
#include "lib/wire/srd_parse.hpp"
#include "tests/srd/srd_two.hpp"
#include "tests/support/catch.hpp"

namespace weft::test {
namespace {

constexpr uint32_t kLong = 100'000;
constexpr Duration kMillisecond = Duration::from_ms(1);

SrdOptions quiet_options() {
  SrdOptions o;
  o.memory = 1u << 20;
  o.config.dead_peer_timeout = Duration::from_s(2);
  return o;
}

wire::SrdPacket packet_in(const SentFrame& frame) {
  wire::SrdPacket p;
  REQUIRE(wire::srd_parse(frame.bytes.data(), static_cast<uint32_t>(frame.bytes.size()), 4, 0, p) ==
          wire::SrdError::none);
  return p;
}

struct Ending : SrdTwo {
  Ending() : SrdTwo(quiet_options()) {}

  void send(uint64_t id, uint32_t length) {
    const Sge sge = a.sge(0, length);
    REQUIRE(a.post(b, request(Opcode::send, id, {&sge, 1})));
  }
  const srd::Sender& sender() { return a.engine().peer(0)->tx; }
  uint32_t assemblies() { return b.engine().peer(0)->rx.assemblies; }
  uint32_t in_state(srd::Message::State state) {
    uint32_t count = 0;
    for (const srd::Message* m = sender().messages; m != nullptr; m = m->older)
      count += m->state == state;
    return count;
  }
  void check_nothing_left() {
    CHECK(sender().messages == nullptr);
    CHECK(sender().una == sender().next);
    CHECK(sender().rnr_waiting == 0);
    if (sender().flight != nullptr) CHECK(sender().flight->flow.in_flight() == 0);
    CHECK(assemblies() == 0);
  }
};

}  // namespace

TEST_CASE("the receiver discards what has arrived of a flushed SEND, and has its receive again") {
  Ending t;
  REQUIRE(t.b.recv(1, t.b.sge(0, kLong)));
  t.a.life().tap->filter = [](const SentFrame& frame) {
    const wire::SrdPacket p = packet_in(frame);
    return p.opcode != wire::SrdOpcode::send || p.offset < kLong / 2;
  };
  t.send(1, kLong);
  t.world.run_for(kMillisecond * 2);
  REQUIRE(t.assemblies() == 1);
  REQUIRE(t.b.qp().receives.empty());
  t.a.fail();
  t.a.life().tap->filter = nullptr;
  t.world.run_for(kMillisecond * 50);
  t.check_nothing_left();
  CHECK(t.b.qp().receives.size() == 1);
  CHECK(t.b.received().empty());
}

TEST_CASE("the packets of a flushed SEND leave the window to those that follow") {
  Ending t;
  t.send(1, 16);  // begins the stream, and waits for a receive
  t.world.run_for(kMillisecond);
  t.a.life().tap->filter = [](const SentFrame&) { return false; };
  t.send(2, kLong);
  t.world.run_for(Duration::from_us(20));
  REQUIRE(t.sender().flight != nullptr);
  REQUIRE(t.sender().flight->flow.in_flight() > 0);
  t.a.fail();
  CHECK(t.sender().flight->flow.in_flight() == 0);
  t.a.life().tap->filter = nullptr;
  t.world.run_for(kMillisecond * 50);
  t.check_nothing_left();
}

TEST_CASE("messages that wait for a receive are counted until they are sent, flushed or fail") {
  using State = srd::Message::State;
  Ending t;
  for (uint64_t id = 0; id < 5; ++id) t.send(id, 16);
  t.world.run_for(kMillisecond * 3);
  REQUIRE(t.in_state(State::rnr_wait) == 5);
  CHECK(t.sender().rnr_waiting == 5);
  for (uint64_t id = 0; id < 2; ++id) REQUIRE(t.b.recv(id, t.b.sge(0, 16)));
  t.world.run_for(kMillisecond * 20);
  REQUIRE(t.b.received().size() == 2);
  CHECK(t.sender().rnr_waiting == t.in_state(State::rnr_wait));

  SECTION("flushed") {
    t.world.run_for(kMillisecond * 5);
    REQUIRE(t.in_state(State::rnr_wait) == 3);
    t.a.fail();
    CHECK(t.sender().rnr_waiting == 0);
    t.world.run_for(kMillisecond * 50);
    t.check_nothing_left();
  }
  SECTION("the peer dies") {
    t.b.life().kill();
    REQUIRE(t.world.run_until([&] { return t.sender().messages == nullptr; }));
    CHECK(t.sender().rnr_waiting == 0);
    CHECK(t.a.sent().size() == 5);
  }
}

}  // namespace weft::test
