// SPDX-License-Identifier: BSD-3-Clause
// Peers that come and go: those at rest are forgotten for new ones, what is forgotten is not heard
// again, rested streams begin anew without anybody noticing. And adds that happen once.

#include "tests/sim/srd_two.hpp"
#include "tests/support/catch.hpp"

using namespace weft;
using namespace weft::test;
using engine::Count;

TEST_CASE("a rested sender begins a new stream, and nothing of the old one is heard, threat:A25") {
  SrdOptions o;
  o.stations = 4;
  o.config.max_peers = 2;
  SrdWorld world(o);
  std::vector<SentFrame> recorded;
  world[0].life().tap->judge = [&](const SentFrame& frame) {
    recorded.push_back(frame);
    return true;
  };
  const auto add = [&](size_t from) {
    const Sge in = world[from].sge(0, 8);
    SendRequest r;
    r.opcode = Opcode::fetch_add;
    r.sges = {&in, 1};
    r.remote_address = world[1].address_of(64);
    r.rkey = RKey{world[1].key()};
    r.compare_add = 1;
    REQUIRE(world[from].post(world[1], r));
    std::vector<Completion> done;
    REQUIRE(world.run_until([&] {
      for (const Completion& c : world[from].sent()) done.push_back(c);
      return !done.empty();
    }));
    return done[0].status;
  };
  for (int i = 0; i < 3; ++i) CHECK(add(0) == Status::success);
  std::vector<SentFrame> old = recorded;
  world.run_for(Duration::from_ms(2500));
  CHECK(add(2) == Status::success);
  CHECK(add(3) == Status::success);  // station 0 is forgotten
  CHECK(world[1].count(Count::peers_forgotten) == 1);
  CHECK(world[1].word(64) == 5);
  const auto replay = [&] {
    for (const SentFrame& frame : old) {
      sim::Packet* const packet = world.network.pool().take();
      packet->path = frame.path;
      packet->length = static_cast<uint32_t>(frame.bytes.size());
      packet->ip_id = frame.ip_id;
      std::memcpy(packet->bytes, frame.bytes.data(), frame.bytes.size());
      world[1].host().arrive(packet, world.network.now());
      world.run_for(Duration::from_us(5));
    }
  };
  replay();
  CHECK(world[1].word(64) == 5);
  CHECK(world[1].count(Count::rx_stale_stream) >= 3);
  world.run_for(Duration::from_ms(2500));
  for (int i = 0; i < 3; ++i) CHECK(add(0) == Status::success);
  CHECK(world[1].word(64) == 8);
  replay();
  CHECK(world[1].word(64) == 8);
}

TEST_CASE("a READ to a peer that begins a new stream meanwhile is answered") {
  SrdTwo t;
  const auto exchange = [&](SrdStation& from, SrdStation& to) {
    const Sge in = from.sge(0, 4096);
    SendRequest r;
    r.opcode = Opcode::read;
    r.sges = {&in, 1};
    r.remote_address = to.address_of(8192);
    r.rkey = RKey{to.key()};
    REQUIRE(from.post(to, r));
  };
  for (int round = 0; round < 10; ++round) {
    exchange(t.a, t.b);  // both rested, both begin anew at once
    exchange(t.b, t.a);
    std::vector<Completion> done;
    REQUIRE(t.world.run_until([&] {
      for (SrdStation* s : {&t.a, &t.b})
        for (const Completion& c : s->sent()) done.push_back(c);
      return done.size() == 2;
    }));
    for (const Completion& c : done) CHECK(c.status == Status::success);
    t.world.run_for(Duration::from_ms(1500));
  }
  CHECK(t.a.count(Count::streams_replaced) >= 9);
}

TEST_CASE("WRITE_ADD of each type happens once, whatever is lost, repeated and rerouted") {
  SrdOptions o;
  o.memory = 1u << 20;
  o.faults.loss = 50'000;
  o.faults.dup = 100'000;
  o.faults.reorder = 200'000;
  o.faults.reorder_time = Duration::from_us(200);
  SrdTwo t(o);
  constexpr uint32_t kBytes = 64'000, kRounds = 20;
  for (const Element element : {Element::int32, Element::int64, Element::fp32}) {
    INFO(static_cast<int>(element));
    std::memset(t.b.at(0), 0, kBytes);
    for (uint32_t i = 0; i < kBytes / 8; ++i) {
      if (element == Element::int64) t.a.word(8 * i) = i * 0x123456789ull;
      for (uint32_t half = 0; half < 2 && element != Element::int64; ++half) {
        const uint32_t at = 8 * i + 4 * half, number = 2 * i + half;
        const float value = static_cast<float>(number % 1000);
        std::memcpy(t.a.at(at),
                    element == Element::fp32 ? static_cast<const void*>(&value)
                                             : static_cast<const void*>(&number),
                    4);
      }
    }
    const Sge out = t.a.sge(0, kBytes);
    SendRequest r = t.request(Opcode::write_add, 0, {&out, 1});
    r.element = element;
    for (uint32_t i = 0; i < kRounds; ++i) REQUIRE(t.a.post(t.b, r));
    size_t done = 0;
    REQUIRE(t.world.run_until([&] {
      for (const Completion& c : t.a.sent()) done += c.status == Status::success;
      return done == kRounds;
    }));
    for (uint32_t at = 0; at < kBytes; at += element == Element::int64 ? 8 : 4) {
      if (element == Element::int64) {
        REQUIRE(t.b.word(at) == t.a.word(at) * kRounds);
      } else if (element == Element::int32) {
        uint32_t sum;
        std::memcpy(&sum, t.b.at(at), 4);
        REQUIRE(sum == at / 4 * kRounds);
      } else {
        float sum;
        std::memcpy(&sum, t.b.at(at), 4);
        REQUIRE(sum == static_cast<float>(at / 4 % 1000) * kRounds);
      }
    }
  }
  CHECK(t.a.count(Count::tx_retransmits) > 0);
  CHECK(t.b.count(Count::rx_duplicates) > 0);
}
