// SPDX-License-Identifier: BSD-3-Clause
// Selective repeat between two queue pairs that agreed to it: goodput under loss, reordering and
// bursts of losses; what is sent again, and that completions and memory are as without a loss.
#include "providers/port/middleware/fault_port.hpp"
#include "tests/virtual_time/rc_pair.hpp"

namespace weft::test {
namespace {

using transport::Count;

struct Outcome {
  double seconds = 0;
  uint64_t packets = 0, again = 0, rewinds = 0, timeouts = 0;
};

constexpr uint32_t kBytes = 1u << 20, kTimes = 48;

// 48 MiB of one operation over a cable of 10 Gb/s, through faults of a's port.
Outcome transfer(Opcode opcode, const middleware::FaultOptions& faults) {
  PairOptions o = options_with(Psn{0xFFFFF0}, 4096, kBytes);
  o.link = {.rate = Rate::from_gbps(10), .delay = Duration::from_us(2)};
  o.connect.timeout = 12;  // 17 ms
  o.connect.selective_repeat = true;
  World* world = nullptr;
  const auto wrap = [&](std::unique_ptr<transport::Port> inner) {
    return std::make_unique<middleware::FaultPort>(std::move(inner), faults,
                                                   [&world] { return world->now(); });
  };
  o.station_a.wrap = wrap;  // both directions
  Pair p(o);
  world = &p.world;
  const bool read = opcode == Opcode::read;
  Station& from = read ? p.station_b : p.station_a;
  fill(from.at(0), kBytes, 7);
  for (uint64_t i = 0; i < kTimes; ++i) {
    const Sge sge = p.station_a.sge(0, kBytes);
    if (opcode == Opcode::send) REQUIRE(p.b.recv(i, {p.station_b.sge(0, kBytes)}));
    REQUIRE(p.a.send(p.request(opcode, i, {&sge, 1})));
  }
  const Instant begin = p.world.now();
  Instant end;
  p.station_b.tap().filter = [&](const SentFrame&) { return end = p.world.now(), true; };
  REQUIRE(p.world.run());
  const std::vector<Completion> done = p.a.sent();
  REQUIRE(done.size() == kTimes);
  for (uint64_t i = 0; i < kTimes; ++i) {
    CHECK(done[i].status == Status::success);
    CHECK(done[i].id == i);
  }
  CHECK(std::memcmp(p.station_a.at(0), p.station_b.at(0), kBytes) == 0);
  CHECK(p.b.qp().res.gap.early.empty());
  CHECK(p.b.qp().res.holes == nullptr);
  CHECK(p.a.qp().req.scoreboard == nullptr);
  Station& a = p.station_a;
  return {static_cast<double>((end - begin).ps) / 1e12, a.count(Count::tx_packets),
          a.count(Count::tx_retransmits), a.count(Count::tx_rewinds), a.count(Count::timeouts)};
}

double goodput(Opcode opcode, const middleware::FaultOptions& faults) {
  const double calm = transfer(opcode, {}).seconds;
  const Outcome o = transfer(opcode, faults);
  UNSCOPED_INFO("seconds " << calm << " to " << o.seconds << "; packets " << o.packets
                           << ", sent again " << o.again << ", rewinds " << o.rewinds
                           << ", timeouts " << o.timeouts);
  return calm / o.seconds;
}

TEST_CASE("a loss costs little") {
  CHECK(goodput(Opcode::write, {.loss = 10'000, .seed = 4}) >= 0.9);
}
TEST_CASE("late packets cost little") {
  CHECK(goodput(Opcode::write,
                {.reorder = 10'000, .reorder_time = Duration::from_us(200), .seed = 3}) >= 0.9);
}
TEST_CASE("bursts of losses cost little") {
  CHECK(goodput(Opcode::write, {.burst = 1'000, .seed = 5}) >= 0.9);
}
TEST_CASE("READ responses that are lost cost little") {
  CHECK(goodput(Opcode::read, {.loss = 10'000, .seed = 6}) >= 0.9);
}
TEST_CASE("late READ responses cost little") {
  CHECK(goodput(Opcode::read,
                {.reorder = 10'000, .reorder_time = Duration::from_us(200), .seed = 7}) >= 0.9);
}
TEST_CASE("bursts of READ responses that are lost cost little") {
  CHECK(goodput(Opcode::read, {.burst = 1'000, .seed = 8}) >= 0.9);
}

// Times from post to completion of WRITEs one after the other, ascending.
std::vector<Duration> latencies(uint32_t bytes, int times, uint32_t loss_ppm) {
  PairOptions o = options_with(Psn{0xFFFFF0}, 4096, 1u << 17);
  o.link = {.rate = Rate::from_gbps(10), .delay = Duration::from_us(2)};
  o.connect.timeout = 14;  // 67 ms
  o.connect.selective_repeat = true;
  World* world = nullptr;
  middleware::FaultOptions faults;
  faults.loss = loss_ppm;
  faults.seed = 9;
  o.station_a.wrap = [&](std::unique_ptr<transport::Port> inner) {
    return std::make_unique<middleware::FaultPort>(std::move(inner), faults,
                                                   [&world] { return world->now(); });
  };
  Pair p(o);
  world = &p.world;
  std::vector<Duration> all;
  Instant posted;
  p.station_a.driver().after_turn([&](Instant now) {
    for (const Completion& c : p.a.sent()) {
      CHECK(c.status == Status::success);
      all.push_back(now - posted);
    }
  });
  for (int i = 0; i < times; ++i) {
    const Sge sge = p.station_a.sge(0, bytes);
    posted = p.world.now();
    REQUIRE(p.a.send(p.request(Opcode::write, 1, {&sge, 1})));
    REQUIRE(p.world.run());
  }
  REQUIRE(all.size() == static_cast<size_t>(times));
  CHECK(p.station_a.count(Count::timeouts) == 0);
  std::sort(all.begin(), all.end(), [](Duration x, Duration y) { return x.ps < y.ps; });
  return all;
}

TEST_CASE("the tail of latency under loss is a few round trips") {
  const Duration calm = latencies(8, 10, 0).back();
  const std::vector<Duration> small = latencies(8, 20'000, 1000);
  const Duration tail = small[small.size() * 9995 / 10'000];
  INFO("8 B: " << calm.ns() << " ns without loss, p99.95 " << tail.ns() << " ns, most "
               << small.back().ns());
  CHECK(tail.ps <= calm.ps * 4);
  const Duration calm_large = latencies(65'536, 10, 0).back();
  const std::vector<Duration> large = latencies(65'536, 4000, 1000);
  const Duration tail_large = large[large.size() * 99 / 100];
  INFO("64 KiB: " << calm_large.ns() << " ns without loss, p99 " << tail_large.ns() << " ns, most "
                  << large.back().ns());
  CHECK(tail_large.ps <= calm_large.ps + calm.ps * 3);  // three round trips
}

TEST_CASE("a gap of an eighth of what is in flight cuts the window, a smaller one does not") {
  constexpr uint32_t kFirst = 0xFFFFF0, kPackets = 16, kLimit = 1u << 16;
  for (const uint32_t lost : {1u, 5u}) {
    INFO(lost << " lost of " << kPackets);
    PairOptions o = options_with(Psn{kFirst}, 1024, 1u << 17);
    o.connect.timeout = 14;  // 67 ms
    o.connect.selective_repeat = true;
    o.station_a.capabilities.in_flight_limit = kLimit;
    Pair p(o);
    uint32_t sent = 0;
    p.station_a.tap().filter = [&](const SentFrame&) { return sent++ >= lost; };
    uint64_t least = UINT64_MAX;
    p.station_a.driver().after_turn(
        [&](Instant) { least = std::min(least, p.a.qp().destination->window.size); });
    fill(p.station_a.at(0), kPackets * 1024, lost);
    const Sge sge = p.station_a.sge(0, kPackets * 1024);
    REQUIRE(p.a.send(p.request(Opcode::write, 1, {&sge, 1})));
    REQUIRE(p.world.run());
    CHECK(p.a.only_sent().status == Status::success);
    CHECK(std::memcmp(p.station_a.at(0), p.station_b.at(0), kPackets * 1024) == 0);
    CHECK(sent >= kPackets + lost);
    CHECK(sent <= kPackets + lost + 1);  // the end is probed
    CHECK(p.station_a.count(Count::tx_retransmits) == sent - kPackets);
    CHECK(p.station_a.count(Count::tx_rewinds) == 0);
    CHECK(least == (lost == 1 ? kLimit : kLimit / 2));
  }
}

}  // namespace
}  // namespace weft::test
