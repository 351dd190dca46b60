// SPDX-License-Identifier: BSD-3-Clause
// READ responses under a controller: they leave at its rate and within its window like SENDs and
// WRITEs, share both with them in turns, keep their order with acknowledgements, and their peer's
// reports are to the controller what acknowledgements are.
#include <algorithm>

#include "lib/congestion/registry.hpp"
#include "tests/virtual_time/rc_pair.hpp"

namespace weft::test {
namespace {

constexpr uint32_t kReadPacingMtu = 1024;
constexpr uint32_t kTotal = 4u << 20;

// Station a owns the memory and the controller; b reads it.
PairOptions read_from_a(const char* controller, int64_t gbps, int64_t rtt_us) {
  PairOptions o = options_with(Psn{0xFFFFF0}, kReadPacingMtu, 16u << 20);
  const Result<congestion::Preset> made = congestion::make_preset(
      controller, {.line = Rate::from_gbps(gbps), .rtt = Duration::from_us(rtt_us), .network = {}});
  REQUIRE(made);
  o.station_a.engine.congestion = *made;
  o.station_a.capabilities.in_flight_limit = 8u << 20;
  o.station_b.capabilities.in_flight_limit = 8u << 20;
  o.connect.timeout = 14;  // 67 ms
  return o;
}

// b READs `bytes` of a's memory.
void read(Pair& p, uint32_t bytes) {
  fill(p.station_a.at(0), bytes, 9);
  uint64_t id = 0;
  for (uint32_t at = 0; at < bytes; at += 1u << 20, ++id) {
    const Sge sge = p.station_b.sge(at, std::min(1u << 20, bytes - at));
    SendRequest r;
    r.id = id;
    r.opcode = Opcode::read;
    r.sges = {&sge, 1};
    r.remote_address = p.station_a.address_of(at);
    r.rkey = RKey{p.station_a.key()};
    REQUIRE(p.b.send(r));
  }
}

void finish(Pair& p, uint32_t bytes) {
  REQUIRE(p.world.run());
  for (const Completion& c : p.b.sent()) CHECK(c.status == Status::success);
  CHECK(std::memcmp(p.station_a.at(0), p.station_b.at(0), bytes) == 0);
}

bool is_read_response(const SentFrame& f) {
  const bool telemetry = f.path.destination_port == wire::kIntUdpPort;
  const auto opcode = static_cast<uint8_t>(f.bytes[telemetry ? sizeof(wire::IntBlock) : 0]);
  return opcode >= wire::kRcReadResponseFirst && opcode <= wire::kRcReadResponseOnly;
}

TEST_CASE("READ responses leave at the rate, in bursts of ten microseconds at most") {
  const bool telemetry = GENERATE(false, true);
  PairOptions o = read_from_a("none", 10, 10);
  o.connect.telemetry = telemetry;
  Pair p(o);
  std::vector<Instant> left;
  p.station_a.tap().filter = [&](const SentFrame& f) {
    if (is_read_response(f)) left.push_back(p.world.now());
    return true;
  };
  read(p, kTotal);
  finish(p, kTotal);
  REQUIRE(left.size() == kTotal / kReadPacingMtu);
  const double frame = kReadPacingMtu + 82 + (telemetry ? 108 : 0);
  const double per_packet = frame * 8 / 10e9 * 1e12;  // ps
  const double took = static_cast<double>((left.back() - left.front()).ps);
  CHECK(took == Approx(static_cast<double>(left.size() - 1) * per_packet).epsilon(0.002));
  for (size_t i = 0; i + 100 < left.size(); ++i) {
    const double stretch = static_cast<double>((left[i + 100] - left[i]).ps);
    CHECK(stretch >= 100 * per_packet - 10.1e6 - per_packet);
  }
  // In virtual time no packet is late by more than the tick of the timers.
  CHECK(p.station_a.count(transport::Count::paced_waits) > 0);
  CHECK(p.station_a.count(transport::Count::paced_late_most_ns) <= 2098);
  CHECK((p.station_a.count(transport::Count::rx_reports) > 0) == telemetry);
  CHECK(p.station_a.count(transport::Count::rx_cnps) == 0);
}

TEST_CASE("a window bounds the READ responses in flight, exactly where they are reported") {
  const bool telemetry = GENERATE(false, true);
  constexpr int64_t kWindow = 100'000;  // 100 Gb/s for 8 us, on a path of five times that
  PairOptions o = read_from_a("none+win", 100, 8);
  o.connect.telemetry = telemetry;
  o.link = {.rate = Rate::from_gbps(100), .delay = Duration::from_us(20)};
  Pair p(o);
  std::vector<Instant> left;
  int64_t most = 0;
  p.station_a.tap().filter = [&](const SentFrame& f) {
    if (!is_read_response(f)) return true;
    left.push_back(p.world.now());
    const auto arrived = static_cast<int64_t>(p.b.qp().req.una - ((uint64_t{1} << 24) + 0xFFFFFE));
    most = std::max(most, static_cast<int64_t>(left.size()) - arrived);
    return true;
  };
  read(p, kTotal);
  finish(p, kTotal);
  constexpr int64_t kPackets = kWindow / kReadPacingMtu + 1;
  if (telemetry) {
    CHECK(most <= kPackets);
    CHECK(most >= kPackets - 1);
  }
  // Without reports a response counts as arrived after T.
  for (size_t i = 0; i + kPackets < left.size(); ++i)
    CHECK((left[i + kPackets] - left[i]).ps >= Duration::from_us(8).ps);
}

TEST_CASE("WRITEs and READ responses of one queue pair share its rate") {
  const bool telemetry = GENERATE(false, true);
  PairOptions o = read_from_a("none", 10, 10);
  o.connect.telemetry = telemetry;
  Pair p(o);
  uint64_t responses = 0, writes = 0;
  Instant first, last;
  p.station_a.tap().filter = [&](const SentFrame& f) {
    const bool data = f.bytes.size() > 1000;
    if (!data) return true;
    if (responses + writes == 0) first = p.world.now();
    last = p.world.now();
    ++(is_read_response(f) ? responses : writes);
    return true;
  };
  read(p, kTotal);
  for (uint64_t i = 0; i < 4; ++i) {
    const Sge sge = p.station_a.sge(8u << 20, 1u << 20);
    REQUIRE(p.a.send(p.request(Opcode::write, i, {&sge, 1}, 8u << 20)));
  }
  p.world.run_for(Duration::from_ms(2));
  const double frames = static_cast<double>(responses + writes);
  const double frame = kReadPacingMtu + 82 + (telemetry ? 108 : 0);
  CHECK(frames * frame * 8 / 10e9 ==
        Approx(static_cast<double>((last - first).ps) / 1e12).epsilon(0.02));
  CHECK(static_cast<double>(responses) / frames == Approx(0.5).margin(0.1));
  finish(p, kTotal);
  for (const Completion& c : p.a.sent()) CHECK(c.status == Status::success);
}

TEST_CASE("an acknowledgement behind paced READ responses still leaves, under loss, too") {
  const bool telemetry = GENERATE(false, true), lossy = GENERATE(false, true);
  const uint32_t bytes = 300'000 + 1024 * GENERATE(range(0, 4));
  CAPTURE(telemetry, lossy, bytes);
  PairOptions o = read_from_a("dcqcn-paper+win", 10, 10);
  o.connect.telemetry = telemetry;
  o.connect.timeout = 6;
  Pair p(o);
  int count = 0;
  const auto filter = [&](const SentFrame&) { return !lossy || ++count % 50 != 7; };
  p.station_a.tap().filter = filter;
  p.station_b.tap().filter = filter;
  read(p, bytes);
  const Sge sge = p.station_b.sge(8u << 20, 10'000);
  SendRequest r;
  r.id = 99;
  r.opcode = Opcode::write;
  r.sges = {&sge, 1};
  r.remote_address = p.station_a.address_of(8u << 20);
  r.rkey = RKey{p.station_a.key()};
  REQUIRE(p.b.send(r));
  REQUIRE(p.world.run());
  const std::vector<Completion> done = p.b.sent();
  REQUIRE(done.size() == 2);
  for (const Completion& c : done) CHECK(c.status == Status::success);
  CHECK(std::memcmp(p.station_a.at(0), p.station_b.at(0), bytes) == 0);
  if (!lossy) CHECK(p.station_b.count(transport::Count::timeouts) == 0);  // it was not left behind
}

TEST_CASE("hpcc gets the telemetry of READ responses by reports, and keeps the queue short") {
  PairOptions o = read_from_a("hpcc", 100, 44);
  o.connect.telemetry = true;
  o.link = {.rate = Rate::from_gbps(10),
            .delay = Duration::from_us(20),
            .queue_bytes = 4u << 20,
            .drops = true,
            .stamp = 0x42};
  Pair p(o);
  for (int round = 0; round < 3; ++round) read(p, kTotal);
  p.world.run_for(Duration::from_ms(3));
  const uint64_t before = p.link.taken_bytes() - p.link.waiting_bytes();
  double queue = 0;
  for (int i = 0; i < 4000; ++i) {
    p.world.run_for(Duration::from_us(1));
    queue += static_cast<double>(p.link.waiting_bytes()) / 4000;
  }
  const double left = static_cast<double>(p.link.taken_bytes() - p.link.waiting_bytes() - before);
  INFO("of the link " << left * 8 / 4e7 << ", queue " << queue << " B");
  CHECK(left * 8 / 4e7 > 0.9);
  CHECK(queue < 15'000);
  CHECK(p.station_a.count(transport::Count::acks_without_telemetry) == 0);
  CHECK(p.station_a.count(transport::Count::rx_reports) > 1000);
  finish(p, kTotal);
}

}  // namespace
}  // namespace weft::test
