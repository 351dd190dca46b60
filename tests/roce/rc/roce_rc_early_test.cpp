// SPDX-License-Identifier: BSD-3-Clause
// Early requests: buffered, executed in PSN order, without effect before; what is
// late costs nothing, what is lost costs little, and memory has bounds.
#include "providers/port/middleware/fault_port.hpp"
#include "tests/virtual_time/dialogue.hpp"

namespace weft::test {
namespace {

using transport::Count;

struct Outcome {
  double seconds = 0;
  uint64_t rewinds = 0, early = 0, again = 0;
};

// 48 MiB of WRITEs over a cable of 10 Gb/s, through faults of the sender's port.
Outcome transfer_with_faults(const middleware::FaultOptions& faults) {
  constexpr uint32_t kBytes = 1u << 20, kTimes = 48;
  PairOptions o = options_with(Psn{0xFFFFF0}, 4096, kBytes);
  o.link = {.rate = Rate::from_gbps(10), .delay = Duration::from_us(2)};
  o.connect.timeout = 12;  // 17 ms
  World* world = nullptr;
  o.station_a.wrap = [&](std::unique_ptr<transport::Port> inner) {
    return std::make_unique<middleware::FaultPort>(std::move(inner), faults,
                                                   [&world] { return world->now(); });
  };
  Pair p(o);
  world = &p.world;
  fill(p.station_a.at(0), kBytes, 7);
  for (uint64_t i = 0; i < kTimes; ++i) {
    const Sge sge = p.station_a.sge(0, kBytes);
    REQUIRE(p.a.send(p.request(Opcode::write, i, {&sge, 1})));
  }
  const Instant begin = p.world.now();
  Instant end;
  p.station_b.tap().filter = [&](const SentFrame&) { return end = p.world.now(), true; };
  REQUIRE(p.world.run());
  const std::vector<Completion> done = p.a.sent();
  REQUIRE(done.size() == kTimes);
  for (const Completion& c : done) CHECK(c.status == Status::success);
  CHECK(std::memcmp(p.station_a.at(0), p.station_b.at(0), kBytes) == 0);
  CHECK(p.b.qp().res.gap.early.empty());
  return {static_cast<double>((end - begin).ps) / 1e12, p.station_a.count(Count::tx_rewinds),
          p.station_b.count(Count::rx_early), p.station_a.count(Count::tx_retransmits)};
}

TEST_CASE("packets that are late by many round trips cost little") {
  const Outcome calm = transfer_with_faults({});
  CHECK(calm.early == 0);
  const Outcome late =
      transfer_with_faults({.reorder = 10'000, .reorder_time = Duration::from_us(200), .seed = 3});
  INFO("calm " << calm.seconds << " s, late " << late.seconds << " s, " << late.rewinds
               << " rewinds");
  CHECK(late.early > 100);
  CHECK(calm.seconds / late.seconds >= 0.9);
  CHECK(late.rewinds <= 6);  // until the patience was learned
}

TEST_CASE("a loss costs little, heavy reordering ends") {
  const Outcome calm = transfer_with_faults({});
  const Outcome loss = transfer_with_faults({.loss = 10'000, .seed = 4});
  INFO("calm " << calm.seconds << " s, loss " << loss.seconds << " s, " << loss.again
               << " packets sent again after " << loss.rewinds << " rewinds");
  CHECK(calm.seconds / loss.seconds >= 0.6);
  const Outcome mess =
      transfer_with_faults({.reorder = 500'000, .reorder_time = Duration::from_us(100), .seed = 5});
  INFO("mess " << mess.seconds << " s, " << mess.rewinds << " rewinds");
  CHECK(calm.seconds / mess.seconds >= 0.6);
}

struct Early : Dialogue {
  std::vector<std::byte> data;
  explicit Early(uint32_t mtu = 1024) : Dialogue(options_with(Psn{0xFFFFFE}, mtu)), data(64) {
    fill(data.data(), data.size(), 9);
  }
  bool untouched(size_t offset) { return all_are(station_b.at(offset), 64, std::byte{}); }
  bool has_data(size_t offset) {
    return std::memcmp(station_b.at(offset), data.data(), data.size()) == 0;
  }
};

TEST_CASE("an early packet has no effect before it is in order, roce:C-PSN-19") {
  Early e;
  const Psn first = e.expected();
  for (const uint32_t i : {3u, 1u, 2u, 2u})
    CHECK(e.responses_to(e.write(first + i, e.data, 128 * i)).empty());
  for (const uint32_t i : {1u, 2u, 3u}) CHECK(e.untouched(128 * i));
  CHECK(e.count(Count::rx_early) == 3);
  CHECK(e.count(Count::rx_duplicates) == 1);
  REQUIRE(e.responses_to(e.write(first, e.data)).size() == 1);
  CHECK(e.responses[0].bth().psn == (first + 2).value);
  CHECK((e.responses[0].aeth().syndrome & wire::kSyndromeKindMask) == wire::kSyndromeAck);
  for (const uint32_t i : {0u, 1u, 2u}) CHECK(e.has_data(128 * i));
  CHECK(e.untouched(128 * 3));  // the last one is unconfirmed until its successor arrives
  REQUIRE(e.responses_to(e.write(first + 4, e.data, 128 * 4)).size() == 1);
  CHECK(e.responses[0].bth().psn == (first + 4).value);
  for (const uint32_t i : {3u, 4u}) CHECK(e.has_data(128 * i));
  REQUIRE(e.responses_to(e.write(first + 5, e.data)).size() == 1);  // unchanged
  CHECK(e.wait(Duration::from_us(5000)).empty());                   // and no NAK comes after
}

TEST_CASE("a missing packet is NAKed once, after the NAK delay") {
  Early e;
  const Psn first = e.expected();
  CHECK(e.responses_to(e.write(first + 1, e.data)).empty());
  CHECK(e.wait(Duration::from_us(30)).empty());
  REQUIRE(e.wait(Duration::from_us(20)).size() == 1);
  CHECK(e.responses[0].bth().psn == first.value);
  CHECK(e.responses[0].aeth().syndrome == wire::kNakSequence);
  CHECK(e.responses_to(e.write(first + 2, e.data)).empty());
  CHECK(e.wait(Duration::from_us(5000)).empty());
}

TEST_CASE("the NAK delay grows when a NAKed packet arrives twice, and shrinks slowly") {
  roce::Gap gap;
  const Duration before = gap.nak_delay;
  Instant now = Instant{} + Duration::from_us(1);
  gap.open(now);
  gap.close(Psn{7}, true, now = now + Duration::from_us(150));
  CHECK(gap.nak_delay == before);
  gap.on_duplicate(Psn{6});
  CHECK(gap.nak_delay == before);
  gap.on_duplicate(Psn{7});
  CHECK(gap.nak_delay == Duration::from_us(300));
  gap.on_duplicate(Psn{7});
  CHECK(gap.nak_delay == Duration::from_us(300));
  for (int i = 0; i < 100; ++i) {
    gap.open(now);
    gap.close(Psn{8}, true, now = now + Duration::from_us(1));
  }
  CHECK(gap.nak_delay == roce::Gap::kMinNakDelay);
  gap.open(now);
  gap.close(Psn{9}, false, now = now + Duration::from_s(1));
  CHECK(gap.nak_delay == roce::Gap::kMaxNakDelay);
}

TEST_CASE("early READs and atomics are executed in order, too") {
  Early e;
  const Psn first = e.expected();
  fill(e.station_b.at(4096), 3000, 3);
  CHECK(e.responses_to(e.fetch_add(first + 4, 5, 8192)).empty());
  CHECK(e.responses_to(e.read(first + 1, 3000, 4096)).empty());  // three PSNs
  CHECK(e.responses_to(e.write(first + 5, e.data)).empty());
  CHECK(all_are(e.station_b.at(8192), 8, std::byte{}));
  REQUIRE(e.responses_to(e.write(first, e.data, 4096)).size() >= 4);
  int responses = 0;
  for (const SentFrame& f : e.responses) {
    responses += f.info().operation == wire::Operation::read_response;
    if (f.info().operation == wire::Operation::atomic_acknowledge) CHECK(responses == 3);
  }
  CHECK(responses == 3);
  CHECK(e.station_b.at(8192)[7] == std::byte{});  // host order: the low byte comes first
  CHECK(e.station_b.at(8192)[0] == std::byte{5});
  CHECK(e.expected() == first + 5);
}

TEST_CASE("a single early packet is not executed, nor one of two that differ, threat:A02") {
  Early e;
  const Psn first = e.expected();
  std::vector<std::byte> forged(64, std::byte{0xEE});
  CHECK(e.responses_to(e.write(first + 2, forged, 256)).empty());
  REQUIRE(e.responses_to(e.write(first, e.data)).size() == 1);
  REQUIRE(e.responses_to(e.write(first + 1, e.data, 128)).size() == 1);
  CHECK(e.untouched(256));
  REQUIRE(e.responses_to(e.write(first + 2, e.data, 256)).size() == 1);  // the true one, in order
  CHECK(e.has_data(256));
  // Behind a gap: the forged one, then the true one; neither is kept, the true one comes again.
  const Psn next = e.expected();
  CHECK(e.responses_to(e.write(next + 1, forged, 512)).empty());
  CHECK(e.responses_to(e.write(next + 1, e.data, 512)).empty());
  CHECK(e.responses_to(e.write(next + 2, e.data, 1024)).empty());
  CHECK(e.responses_to(e.write(next + 3, e.data, 1024)).empty());
  REQUIRE(e.responses_to(e.write(next, e.data)).size() == 1);
  CHECK(e.untouched(512));
  REQUIRE(e.wait(Duration::from_us(60)).size() == 1);
  CHECK(e.responses[0].aeth().syndrome == wire::kNakSequence);
  CHECK(e.responses[0].bth().psn == (next + 1).value);
  REQUIRE(e.responses_to(e.write(next + 1, e.data, 512)).size() == 1);
  CHECK(e.has_data(512));
  CHECK(e.has_data(1024));
}

TEST_CASE("an unconfirmed last packet is NAKed soon") {
  Early e;
  const Psn first = e.expected();
  CHECK(e.responses_to(e.write(first + 1, e.data, 128)).empty());
  REQUIRE(e.responses_to(e.write(first, e.data)).size() == 1);
  REQUIRE(e.wait(Duration::from_us(30)).size() == 1);
  CHECK(e.responses[0].aeth().syndrome == wire::kNakSequence);
  CHECK(e.responses[0].bth().psn == (first + 1).value);
  REQUIRE(e.responses_to(e.write(first + 1, e.data, 128)).size() == 1);
  CHECK(e.has_data(128));
  CHECK(e.b.qp().res.gap.closed());
}

TEST_CASE("buffering is bounded: a window, a pool, and nothing after the end") {
  Early e;
  const Psn first = e.expected();
  // Outside of the window: NAKed at once, as without buffering.
  REQUIRE(e.responses_to(e.write(first + roce::kEarlyWindow, e.data)).size() == 1);
  CHECK(e.responses[0].aeth().syndrome == wire::kNakSequence);
  CHECK(e.count(Count::rx_early) == 0);
  roce::EarlyPackets pool(2048);
  roce::EarlyList line;
  std::vector<std::byte> bytes(4096 + 68);
  transport::Frame frame{.bytes = bytes.data(), .length = 64};
  uint32_t kept = 0;
  while (pool.keep(line, Psn{1000} + kept, 1, frame, wire::kIcrcLength) ==
         roce::EarlyPackets::Kept::yes)
    ++kept;
  CHECK(kept == 2048);
  pool.clear(line);
  CHECK(line.empty());
  frame.length = 4096 + 69;
  CHECK(pool.keep(line, Psn{1}, 1, frame, wire::kIcrcLength) == roce::EarlyPackets::Kept::no);
  frame.length = 4096 + 68;
  for (uint32_t i = 0; i < 2048; ++i)
    CHECK(pool.keep(line, Psn{2048 - i}, 1, frame, wire::kIcrcLength) ==
          roce::EarlyPackets::Kept::yes);
  CHECK(pool.first_psn(line) == Psn{1});
}

TEST_CASE("duplicates are compared up to their last byte, and no further") {
  const uint32_t trailer = GENERATE(0u, 4u);
  roce::EarlyPackets pool(2048);
  roce::EarlyList line;
  using Kept = roce::EarlyPackets::Kept;
  for (const uint32_t payload : {0u, 4u, 64u}) {
    const uint32_t length = 12 + payload + trailer;
    const std::unique_ptr<std::byte[]> exact(new std::byte[length]());
    transport::Frame frame{.bytes = exact.get(), .length = length};
    for (uint32_t at = 0; at < length; ++at) {
      CHECK(pool.keep(line, Psn{5}, 1, frame, trailer) == Kept::yes);
      CHECK(pool.keep(line, Psn{5}, 1, frame, trailer) == Kept::already);
      exact[at] ^= std::byte{0x80};
      const bool may_differ = at == 8 || at >= length - trailer;  // the A bit, the ICRC
      CHECK(pool.keep(line, Psn{5}, 1, frame, trailer) ==
            (may_differ ? Kept::already : Kept::conflict));
      CHECK(line.empty() == !may_differ);
      pool.clear(line);
    }
  }
}

TEST_CASE("a queue pair that is reset or fails frees its early packets") {
  Early e;
  for (int round = 0; round < 20; ++round) {  // the pool holds five
    const Psn first = e.expected();
    for (uint32_t i = 1; i < 400; ++i) CHECK(e.responses_to(e.write(first + i, e.data)).empty());
    roce::Engine& engine = e.station_b.engine();
    if (round % 2 == 0) REQUIRE(engine.modify_qp(e.b.qp(), {.state = QpState::err}));
    CHECK(e.b.qp().res.gap.early.empty() == (round % 2 == 0));
    REQUIRE(engine.modify_qp(e.b.qp(), {.state = QpState::reset}));
    CHECK(e.b.qp().res.gap.early.empty());
    e.world.to_rtr(e.b, e.station_a.address(), e.a.qp().number, first, {});
  }
  CHECK(e.count(Count::rx_early) == 20 * 399);
}

}  // namespace
}  // namespace weft::test
