// SPDX-License-Identifier: BSD-3-Clause
// Eviction of peers: idle ones make room for new ones, packets of forgotten streams are not
// accepted, idle streams are renewed without an effect on applications. And adds that are executed
// once.

#include "tests/srd/srd_two.hpp"
#include "tests/support/catch.hpp"

using namespace weft;
using namespace weft::test;
using transport::Count;

namespace {

// Has `from` add one to its own word in the memory of station 1.
void add_one(SrdWorld& world, size_t from) {
  world[from].word(0) = 1;
  const Sge one = world[from].sge(0, 8);
  SendRequest r;
  r.opcode = Opcode::write_add;
  r.element = Element::int64;
  r.sges = {&one, 1};
  r.remote_address = world[1].address_of(64 + 8 * from);
  r.rkey = RKey{world[1].key()};
  REQUIRE(world[from].post(world[1], r));
}

}  // namespace

TEST_CASE(
    "an idle sender begins a new stream, and no packet of the old one is accepted, threat:A25") {
  SrdOptions o;
  o.stations = 4;
  o.config.max_peers = 2;
  SrdWorld world(o);
  std::vector<SentFrame> recorded;
  world[0].life().tap->filter = [&](const SentFrame& frame) {
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
  world.run_for(Duration::from_ms(6500));
  CHECK(add(2) == Status::success);
  CHECK(add(3) == Status::success);  // station 0 is forgotten
  CHECK(world[1].count(Count::peers_forgotten) == 1);
  CHECK(world[1].word(64) == 5);
  const auto replay = [&] {
    for (const SentFrame& frame : old) {
      world[1].inject(frame);
      world.run_for(Duration::from_us(5));
    }
  };
  replay();
  CHECK(world[1].word(64) == 5);
  CHECK(world[1].count(Count::rx_other_incarnation) >= 3);
  world.run_for(Duration::from_ms(6500));
  for (int i = 0; i < 3; ++i) CHECK(add(0) == Status::success);
  CHECK(world[1].word(64) == 8);
  replay();
  CHECK(world[1].word(64) == 8);
}

TEST_CASE("a peer with a packet in flight is not evicted, threat:A25") {
  SrdOptions o;
  o.stations = 7;
  o.config.max_peers = 4;
  o.config.dead_peer_timeout = Duration::from_s(5);
  SrdWorld world(o);
  // Executed, and then nothing gets through for most of the sender's patience.
  world[1].life().tap->filter = [&](const SentFrame& frame) {
    return frame.path.destination != world[0].host().address() ||
           frame.opcode() == static_cast<uint8_t>(wire::SrdOpcode::welcome);
  };
  add_one(world, 0);
  world.run_for(Duration::from_ms(1));
  CHECK(world[1].word(64) == 1);
  world[0].life().tap->filter = [](const SentFrame&) { return false; };
  world.run_for(Duration::from_ms(3500));
  for (const size_t other : {2, 3, 4, 5, 6}) {
    add_one(world, other);
    world.run_for(Duration::from_ms(10));
  }
  world[0].life().tap->filter = world[1].life().tap->filter = nullptr;
  std::vector<Completion> done;
  REQUIRE(world.run_until([&] {
    for (const Completion& c : world[0].sent()) done.push_back(c);
    return !done.empty();
  }));
  CHECK(done[0].status == Status::success);
  world.run_for(Duration::from_ms(100));
  CHECK(world[1].word(64) == 1);
}

TEST_CASE("a READ completes although its peer begins a new stream meanwhile") {
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
    exchange(t.a, t.b);  // both were idle, both begin new streams at once
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

TEST_CASE("requests of a process that replaced a dead one are answered once") {
  SrdTwo t;
  const auto write = [](SrdStation& from, SrdStation& to) { REQUIRE(from.write(to, 64, 8192)); };
  const auto ends = [&](SrdStation& from) {
    std::vector<Completion> done;
    REQUIRE(t.world.run_until([&] {
      for (const Completion& c : from.sent()) done.push_back(c);
      return !done.empty();
    }));
    CHECK(done.size() == 1);
    return done[0].status;
  };
  for (int round = 0; round < 5; ++round) {
    write(t.b, t.a);
    CHECK(ends(t.b) == Status::success);
    write(t.a, t.b);  // acknowledged: a's stream to b is confirmed
    CHECK(ends(t.a) == Status::success);
    t.b.restart();
    t.world.run_for(Duration::from_ms(2));
    write(t.b, t.a);  // the next process, at the same address and number
    CHECK(ends(t.b) == Status::success);
    write(t.a, t.b);  // in a stream that b does not know
    CHECK(ends(t.a) == Status::success);
  }
}

TEST_CASE("requests executed by a peer that declared us dead are not retransmitted, threat:A25") {
  SrdWorld world;
  world[1].options().config.dead_peer_timeout = Duration::from_ms(50);
  world[1].restart();
  const auto ends = [&](size_t i) {
    std::vector<Completion> done;
    REQUIRE(world.run_until([&] {
      for (const Completion& c : world[i].sent()) done.push_back(c);
      return !done.empty();
    }));
    return done[0].status;
  };
  const auto write = [&] {
    REQUIRE(world[1].write(world[0], 8, 512));
    return ends(1);
  };
  add_one(world, 0);
  CHECK(ends(0) == Status::success);
  CHECK(write() == Status::success);  // its stream begins
  add_one(world, 0);                  // and this is acknowledged after that
  CHECK(ends(0) == Status::success);
  world[1].life().tap->filter = [](const SentFrame&) { return false; };
  add_one(world, 0);
  CHECK(write() == Status::retry_exceeded);  // it drops our stream
  CHECK(world[1].word(64) == 3);
  world[1].life().tap->filter = nullptr;
  CHECK(ends(0) == Status::remote_aborted);
  CHECK(world[1].word(64) == 3);
  add_one(world, 0);
  CHECK(ends(0) == Status::success);
  CHECK(world[1].word(64) == 4);
}

TEST_CASE("WRITE_ADD of each type is executed once under loss, duplication and rerouting") {
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

TEST_CASE("WRITE_ADDs of several peers to the same elements lose nothing") {
  SrdOptions o;
  o.stations = 5;
  o.seed = 3;
  o.faults.loss = 50'000;
  o.faults.dup = 100'000;
  o.faults.reorder = 200'000;
  o.faults.reorder_time = Duration::from_us(200);
  SrdWorld world(o);
  constexpr uint32_t kElements = 8000, kRounds = 20;
  std::memset(world[0].at(0), 0, 4 * kElements);
  size_t done = 0;
  for (uint32_t from = 1; from < 5; ++from) {
    for (uint32_t i = 0; i < kElements; ++i) {
      const auto value = static_cast<float>(from * (i % 100));
      std::memcpy(world[from].at(4 * i), &value, 4);
    }
    const Sge out = world[from].sge(0, 4 * kElements);
    SendRequest r;
    r.opcode = Opcode::write_add;
    r.element = Element::fp32;
    r.sges = {&out, 1};
    r.remote_address = world[0].address_of(0);
    r.rkey = RKey{world[0].key()};
    for (uint32_t i = 0; i < kRounds; ++i) REQUIRE(world[from].post(world[0], r));
  }
  REQUIRE(world.run_until([&] {
    for (uint32_t from = 1; from < 5; ++from)
      for (const Completion& c : world[from].sent()) done += c.status == Status::success;
    return done == 4 * kRounds;
  }));
  for (uint32_t i = 0; i < kElements; ++i) {
    float sum;
    std::memcpy(&sum, world[0].at(4 * i), 4);
    REQUIRE(sum == static_cast<float>((1 + 2 + 3 + 4) * (i % 100) * kRounds));
  }
}
