// SPDX-License-Identifier: BSD-3-Clause
// Ping-pong of two endpoints (Config::ack_piggyback_delay): each response leaves before the
// acknowledgement of its request, and one acknowledgement covers several requests. Both
// engines are moved by hand, so that each call of transmit() is counted.
#include "tests/srd/srd_two.hpp"
#include "tests/support/catch.hpp"
#include "tests/virtual_time/forge.hpp"

namespace weft::test {
namespace {

using transport::Count;

constexpr Duration kWait = Duration::from_us(50);

SrdOptions patient() {
  SrdOptions o;
  o.config.paths = 1;
  o.config.ack_piggyback_delay = kWait;
  return o;
}

struct Talk : SrdTwo {
  std::vector<SentFrame> in_flight;
  Instant now;

  explicit Talk(const SrdOptions& options = patient()) : SrdTwo(options), now(world.network.now()) {
    for (SrdStation* const station : {&a, &b}) {
      station->life().tap->filter = [this](const SentFrame& f) {
        in_flight.push_back(f);
        return false;
      };
    }
    // The first packets of a stream are acknowledged at once.
    post(a), post(b);
    for (int i = 0; i < 4; ++i) turn(a), turn(b);
    REQUIRE(acks() == 2);
  }

  SrdStation& other(SrdStation& s) { return &s == &a ? b : a; }
  uint64_t acks() { return a.count(Count::tx_acks) + b.count(Count::tx_acks); }

  // One call of transmit(); what left arrives at once. Returns the number of frames.
  size_t turn(SrdStation& from) {
    now = now + Duration::from_ns(100);
    transport::TxFrame frames[64];
    const size_t count = from.engine().transmit(frames, now);
    from.life().tap->transmit({frames, count});
    for (const SentFrame& f : in_flight) give(other(from).engine(), f.path, f.bytes, now);
    in_flight.clear();
    return count;
  }

  void post(SrdStation& from, uint32_t length = 8) {
    REQUIRE(from.write(other(from), length, 1024));
  }

  // a sends, b responds, `rounds` times; the sender makes `idle` more calls of transmit()
  // meanwhile.
  void alternate(int rounds, int idle = 0) {
    for (int i = 0; i < rounds; ++i) {
      for (SrdStation* const speaker : {&a, &b}) {
        post(*speaker);
        for (int turns = 0; turns <= idle; ++turns) turn(*speaker);
      }
    }
  }

  void fall_silent() {
    for (int i = 0; i < 100; ++i) turn(a), turn(b);
    CHECK_FALSE(a.engine().wants_transmit());
    CHECK_FALSE(b.engine().wants_transmit());
  }
};

TEST_CASE("srd: in a ping-pong one acknowledgement covers several messages") {
  Talk talk;
  talk.alternate(20);  // they learn to wait, also while the other side thinks
  (void)talk.a.sent(), (void)talk.b.sent();
  constexpr int kRounds = 200;
  const uint64_t before = talk.acks();
  talk.alternate(kRounds, 8);
  CHECK(talk.acks() - before < 2 * kRounds / 4);
  talk.fall_silent();
  for (SrdStation* const station : {&talk.a, &talk.b}) {
    const std::vector<Completion> done = station->sent();
    CHECK(done.size() >= kRounds);
    for (const Completion& c : done) CHECK(c.status == Status::success);
    CHECK(station->count(Count::tx_retransmits) == 0);
  }
}

TEST_CASE("srd: a response in a ping-pong leaves in its own frame, before the acknowledgement") {
  Talk talk;
  const uint64_t before = talk.acks();
  talk.post(talk.a);
  CHECK(talk.turn(talk.a) == 1);
  talk.post(talk.b);
  CHECK(talk.turn(talk.b) == 1);
  CHECK(talk.acks() == before);
  CHECK(talk.b.engine().wants_transmit());
}

TEST_CASE("srd: an acknowledgement that no response overtakes waits for one transmit()") {
  Talk talk;
  for (int round = 0; round < 5; ++round) {
    talk.post(talk.a);
    CHECK(talk.turn(talk.a) == 1);
    CHECK(talk.turn(talk.b) == 0);
    CHECK(talk.turn(talk.b) == 1);
  }
}

TEST_CASE("srd: a streaming sender is acknowledged with the next transmit()") {
  Talk talk;
  const uint32_t two_packets = 2 * talk.a.engine().mtu;
  const uint64_t before = talk.acks();
  talk.post(talk.a, two_packets);
  CHECK(talk.turn(talk.a) == 2);
  CHECK(talk.turn(talk.b) == 1);
  CHECK(talk.acks() == before + 1);
}

TEST_CASE("srd: a duplicate is acknowledged with the next transmit()") {
  Talk talk;
  SentFrame copy;
  const auto keep = [&](const SentFrame& f) {
    copy = f;
    talk.in_flight.push_back(f);
    return false;
  };
  talk.a.life().tap->filter = keep;
  talk.post(talk.a);
  CHECK(talk.turn(talk.a) == 1);
  give(talk.b.engine(), copy.path, copy.bytes, talk.now);
  CHECK(talk.b.count(Count::rx_duplicates) == 1);
  CHECK(talk.turn(talk.b) == 1);
}

TEST_CASE("srd: an acknowledgement is never delayed longer than ack_piggyback_delay") {
  Talk talk;
  talk.alternate(50);  // they have become patient
  talk.fall_silent();
  talk.post(talk.a), talk.turn(talk.a);
  talk.post(talk.b), talk.turn(talk.b);
  const uint64_t before = talk.b.count(Count::tx_acks);
  talk.turn(talk.b);
  CHECK(talk.b.count(Count::tx_acks) == before);
  talk.now = talk.now + kWait;
  talk.turn(talk.b);
  CHECK(talk.b.count(Count::tx_acks) == before + 1);
}

TEST_CASE("srd: pending acknowledgements leave when a queue pair is destroyed") {
  Talk talk;
  talk.alternate(50);
  talk.post(talk.a), talk.turn(talk.a);
  talk.post(talk.b), talk.turn(talk.b);
  const uint64_t before = talk.b.count(Count::tx_acks);
  CHECK(talk.b.engine().flush_pending_ack(talk.b.qp()));
  talk.turn(talk.b);
  CHECK(talk.b.count(Count::tx_acks) == before + 1);
  CHECK_FALSE(talk.b.engine().flush_pending_ack(talk.b.qp()));
}

}  // namespace
}  // namespace weft::test
