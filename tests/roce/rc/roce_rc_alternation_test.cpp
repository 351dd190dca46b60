// SPDX-License-Identifier: BSD-3-Clause
// Alternating requests: each side's request leaves before its acknowledgement of the other side's,
// and one acknowledgement covers several requests. Both engines are moved by hand, so that each
// call of transmit() is counted.
#include "tests/virtual_time/forge.hpp"
#include "tests/virtual_time/rc_pair.hpp"

namespace weft::test {
namespace {

struct Talk : Pair {
  std::vector<SentFrame> in_flight;
  uint32_t acks = 0;  // that came in frames of their own, from either side

  Talk() {
    const auto keep = [this](const SentFrame& f) {
      acks += f.opcode() == wire::kRcAcknowledge;
      in_flight.push_back(f);
      return false;
    };
    station_a.tap().filter = station_b.tap().filter = keep;
  }

  Endpoint& other(Endpoint& e) { return &e == &a ? b : a; }
  bool owes(Endpoint& e) { return e.station().engine().wants_transmit(); }

  // One call of transmit(), for `room` frames; what left arrives at once. Returns how many.
  size_t turn(Endpoint& from, size_t room = 64) {
    transport::TxFrame frames[64];
    Station& station = from.station();
    const size_t count = station.engine().transmit({frames, room}, world.now());
    station.tap().transmit({frames, count});
    for (const SentFrame& f : in_flight)
      give(other(from).station().engine(), f.path, f.bytes, world.now());
    in_flight.clear();
    return count;
  }

  void post(Endpoint& from) {
    const Sge sge = from.station().sge(0, 8);
    Station& peer = other(from).station();
    SendRequest r;
    r.opcode = Opcode::write;
    r.sges = {&sge, 1};
    r.remote_address = peer.address_of(64);
    r.rkey = RKey{peer.key()};
    REQUIRE(from.send(r));
  }

  // a sends, b replies, `rounds` times; the sender calls transmit() `idle` times more in between.
  void alternate(int rounds, int idle = 0) {
    for (int i = 0; i < rounds; ++i) {
      for (Endpoint* const speaker : {&a, &b}) {
        post(*speaker);
        for (int turns = 0; turns <= idle; ++turns) turn(*speaker);
      }
    }
  }

  // Calls of transmit() until `from` has nothing left to send.
  int turns_until_silent(Endpoint& from) {
    int turns = 0;
    for (; owes(from) && turns < 1000; ++turns) turn(from);
    return turns;
  }
};

size_t successes(const std::vector<Completion>& completions) {
  size_t n = 0;
  for (const Completion& c : completions) n += c.status == Status::success;
  return n;
}

TEST_CASE("an acknowledgement is delayed by one call, and not when it covers 64 requests") {
  for (const int words : {1, 63, 64}) {
    Talk talk;
    for (int i = 0; i < words; ++i) {
      talk.post(talk.a);
      REQUIRE(talk.turn(talk.a) == 1);
    }
    CHECK(talk.turn(talk.b) == (words == 64 ? 1 : 0));
    CHECK(talk.turn(talk.b) == (words == 64 ? 0 : 1));
    CHECK(talk.acks == 1);
    CHECK_FALSE(talk.owes(talk.b));
  }
}

TEST_CASE("an acknowledgement without room behind data precedes data in the next call") {
  Talk talk;
  talk.post(talk.a);
  REQUIRE(talk.turn(talk.a) == 1);
  REQUIRE(talk.turn(talk.b) == 0);
  talk.post(talk.b);
  REQUIRE(talk.turn(talk.b, 1) == 1);
  CHECK(talk.acks == 0);
  CHECK(talk.turns_until_silent(talk.b) <= 2);
  CHECK(talk.acks == 1);
}

TEST_CASE("with alternating requests one acknowledgement covers several, roce:C-ACK-36") {
  Talk talk;
  constexpr int kRounds = 200;
  talk.alternate(kRounds);
  CHECK(talk.acks < 2 * kRounds / 4);
  talk.turns_until_silent(talk.a);
  talk.turns_until_silent(talk.b);
  CHECK(successes(talk.a.sent()) == kRounds);
  CHECK(successes(talk.b.sent()) == kRounds);
  check_quiet(talk.station_a);
  check_quiet(talk.station_b);
}

// A probe for credits, or any packet, activates a queue pair that has nothing to send.
TEST_CASE("the peer's acknowledgement does not expedite the own one") {
  Talk talk;
  talk.alternate(8);
  talk.turns_until_silent(talk.a);
  talk.turns_until_silent(talk.b);
  const uint32_t before = talk.acks;
  for (int round = 0; round < 50; ++round) {
    talk.alternate(1);
    talk.a.station().engine().activate(talk.a.qp());  // as an acknowledgement that brings credit
    talk.b.station().engine().activate(talk.b.qp());
    talk.turn(talk.a);
    talk.alternate(1);
  }
  CHECK(talk.acks - before < 60);  // without coalescing: one for each of 200 requests
}

TEST_CASE("the delay of an acknowledgement adapts to the peer's response time") {
  Talk talk;
  talk.alternate(20);
  talk.acks = 0;
  constexpr int kRounds = 50;
  talk.alternate(kRounds, 8);
  CHECK(talk.acks < 2 * kRounds / 4);
}

TEST_CASE("a single request leaves before the delayed acknowledgement") {
  Talk talk;
  talk.post(talk.a);
  CHECK(talk.turn(talk.a) == 1);
  talk.post(talk.b);
  CHECK(talk.turn(talk.b) == 1);
  CHECK(talk.acks == 0);
  CHECK(talk.owes(talk.b));
}

TEST_CASE("the delay shrinks for a peer that waits for the acknowledgement") {
  Talk talk;
  talk.alternate(100);  // acknowledgements have become patient
  talk.turns_until_silent(talk.a);
  talk.turns_until_silent(talk.b);
  int before = 1000;
  for (int round = 0; round < 6; ++round) {
    talk.post(talk.a);
    talk.turn(talk.a);
    talk.post(talk.b);
    const int turns = talk.turns_until_silent(talk.b);  // a sends nothing until all is acknowledged
    CHECK(turns <= before);
    CHECK(turns <= 17);
    before = turns;
    talk.turns_until_silent(talk.a);
  }
  CHECK(before == 2);  // the request, then the acknowledgement
}

TEST_CASE("an acknowledgement without data waits one turn") {
  Talk talk;
  talk.alternate(100);
  talk.turns_until_silent(talk.a);
  talk.turns_until_silent(talk.b);
  for (int round = 0; round < 6; ++round) {
    talk.post(talk.a);
    talk.turn(talk.a);
    CHECK(talk.turns_until_silent(talk.b) == 2);
  }
}

}  // namespace
}  // namespace weft::test
