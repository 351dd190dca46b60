// SPDX-License-Identifier: BSD-3-Clause
// Receives that are scarce: many senders want those of one queue pair, which posts them one by one.
// All get the same share, no sender retries continually, and other messages are not delayed.
#include <cstdio>
#include <numeric>

#include "tests/srd/srd_star.hpp"

using namespace weft;
using namespace weft::test;
using transport::Count;

namespace {

// Station 0 posts a receive each millisecond; all others send to it, `depth` messages at a time.
struct Scarce {
  explicit Scarce(SrdOptions o, uint32_t depth) : star(o), delivered(o.stations), depth(depth) {
    for (uint32_t i = 1; i < o.stations; ++i) {
      for (uint32_t k = 0; k < depth; ++k) send(i);
      star[i].life().after_turn = [this, i] {
        for (const Completion& c : star[i].sent()) {
          REQUIRE(c.status == Status::success);
          if (c.type == WorkType::send && again) send(i);
        }
      };
    }
    star[0].life().after_turn = [this] {
      for (const Completion& c : star[0].received()) {
        REQUIRE(c.status == Status::success);
        ++delivered[c.imm_or_key];
      }
    };
  }
  static SrdOptions options(uint32_t senders) {
    SrdOptions o;
    o.stations = senders + 1;
    o.qp.max_recv_wr = 256;
    o.qp.max_send_wr = 512;
    return controlled("nscc", o);
  }
  void send(uint32_t from) {
    SendRequest r;
    r.opcode = Opcode::send_with_imm;
    r.imm = from;
    const Sge sge = star[from].sge(0, 64);
    r.sges = {&sge, 1};
    REQUIRE(star[from].post(star[0], r));
  }
  void run_for(Duration d) { star.network.events().run_until(star.network.now() + d); }
  void post_receives(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      REQUIRE(star[0].recv(i, star[0].sge(4096, 64)));
      run_for(Duration::from_ms(1));
    }
  }
  uint32_t sum() const { return std::accumulate(delivered.begin(), delivered.end(), 0u); }
  // Jain's index: 1 when all have the same share, 1 / n when one has all.
  double fairness() const {
    double squares = 0;
    for (const uint32_t d : delivered) squares += double{1} * d * d;
    return double{1} * sum() * sum() / ((static_cast<double>(delivered.size()) - 1) * squares);
  }
  uint64_t sent_packets() {
    uint64_t packets = 0;
    for (size_t i = 1; i < star.stations.size(); ++i) packets += star[i].count(Count::tx_packets);
    return packets;
  }

  SrdStar star;
  std::vector<uint32_t> delivered;
  uint32_t depth;
  bool again = true;  // a message that is through makes room for another
};

}  // namespace

TEST_CASE("64 senders share the receives of a queue pair that posts one per ms, threat:A20") {
  for (const uint32_t depth : {1u, 4u}) {
    INFO("messages at a time " << depth);
    Scarce s(Scarce::options(64), depth);
    s.run_for(Duration::from_ms(5));
    s.post_receives(400);
    CHECK(s.sum() >= 395);
    CHECK(s.fairness() >= 0.9);
    // Each message is refused once, and each sender retries a few times a second.
    CHECK(s.star[0].count(Count::tx_rnr_naks) <= s.sum() + 64 * depth + 3 * 64);
    CHECK(s.sent_packets() <= 4 * s.sum() + 4 * 64 * depth);
    // What still waits has had its first try already. Without counting those: each message costs
    // its first try, a fill for that, and the one that finds its receive.
    const uint64_t packets = s.sent_packets(), delivered = s.sum();
    s.post_receives(400);
    const double each = double(s.sent_packets() - packets) / double(s.sum() - delivered);
    std::printf("%u at a time: %.2f packets a message, %.2f from the start\n", depth, each,
                double(s.sent_packets()) / s.sum());
    CHECK(each <= 4);
    CHECK(s.sent_packets() <= 4 * s.sum());
  }
}

TEST_CASE("a sender that never pauses does not take receives reserved for others, threat:A20") {
  Scarce s(Scarce::options(8), 1);
  s.run_for(Duration::from_ms(5));
  for (int i = 0; i < 200; ++i) {
    s.send(1);  // arrives while the call for the next receive is on its way
    s.run_for(Duration::from_us(3));
    s.post_receives(1);
  }
  CHECK(s.sum() >= 195);
  CHECK(s.fairness() >= 0.9);
}

TEST_CASE(
    "one line for all messages of a sender: it asks seldom, and is called for each, threat:A20") {
  Scarce s(Scarce::options(8), 20);
  s.again = false;
  s.run_for(Duration::from_s(5));
  const uint64_t refusals = s.star[0].count(Count::tx_rnr_naks);
  CHECK(refusals <= 160 + 8 * 5 * 4);
  s.post_receives(165);
  CHECK(s.sum() == 160);
  CHECK(s.star[0].count(Count::tx_rnr_naks) <= refusals + 20);
}

// It has 400 messages outstanding all the time, each other one has one.
TEST_CASE("one of 32 senders floods the receives: each other has 80 % of its share, threat:A32") {
  constexpr uint32_t kSenders = 32, kReceives = 640;
  Scarce s(Scarce::options(kSenders), 1);
  for (int i = 0; i < 400; ++i) s.send(1);
  s.run_for(Duration::from_ms(5));
  s.post_receives(kReceives);
  CHECK(s.sum() >= kReceives - 5);
  for (uint32_t i = 2; i <= kSenders; ++i) {
    INFO("sender " << i << " of " << kSenders);
    CHECK(s.delivered[i] >= kReceives / kSenders * 8 / 10);
  }
  CHECK(s.delivered[1] <= kReceives / kSenders * 2);
}

TEST_CASE("a notified peer that sends nothing delays others briefly, threat:A20") {
  Scarce s(Scarce::options(8), 1);
  s.run_for(Duration::from_ms(5));
  s.star[3].life().kill();
  s.post_receives(200);
  CHECK(s.sum() >= 190);
  CHECK(s.delivered[3] == 0);
  s.delivered.pop_back();  // of seven now
  CHECK(s.fairness() >= 0.8);
}

TEST_CASE("a lost ready packet costs a place in the queue, not the message, threat:A20") {
  Scarce s(Scarce::options(4), 1);
  uint32_t lost = 0;
  s.star[0].life().tap->filter = [&](const SentFrame& frame) {
    const bool call = frame.opcode() == static_cast<uint8_t>(wire::SrdOpcode::ready);
    const bool lose = call && lost < 8;
    lost += lose;
    return !lose;
  };
  s.run_for(Duration::from_ms(5));
  s.post_receives(1);
  s.run_for(Duration::from_s(3));  // they come by themselves
  CHECK(s.sum() == 1);
  s.post_receives(100);
  CHECK(lost == 8);
  CHECK(s.fairness() >= 0.9);
}

TEST_CASE("messages that need no receive overtake those that wait for one, threat:A20 threat:A22") {
  Scarce s(Scarce::options(16), 4);
  s.run_for(Duration::from_ms(5));
  uint32_t written = 0;
  for (uint32_t i = 1; i <= 16; ++i) {
    SendRequest r;
    r.opcode = Opcode::write;
    const Sge sge = s.star[i].sge(0, 64);
    r.sges = {&sge, 1};
    r.remote_address = s.star[0].address_of(8192 + 64 * i);
    r.rkey = RKey{s.star[0].key()};
    s.star[i].life().after_turn = [&s, &written, i] {
      for (const Completion& c : s.star[i].sent()) written += c.type == WorkType::write;
    };
    REQUIRE(s.star[i].post(s.star[0], r));
  }
  s.run_for(Duration::from_us(100));
  CHECK(written == 16);
}
