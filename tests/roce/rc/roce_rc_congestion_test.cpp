// SPDX-License-Identifier: BSD-3-Clause
// Congestion control in the engine: packets leave at the controller's rate and within its window,
// marks come back as CNPs, and a queue before a slow link stays short with each controller that
// needs no telemetry, while nothing is lost and the link stays busy.
#include "lib/congestion/registry.hpp"
#include "tests/virtual_time/forge.hpp"
#include "tests/virtual_time/rc_pair.hpp"

namespace weft::test {
namespace {

constexpr uint32_t kMtu = 1024;
constexpr double kFrame = 1024 + 82;  // what a packet takes of the link, by the pacer's account

congestion::Preset preset(const char* name, int64_t gbps, int64_t rtt_us = 10) {
  const Result<congestion::Preset> made = congestion::make_preset(
      name, {.line = Rate::from_gbps(gbps), .rtt = Duration::from_us(rtt_us), .network = {}});
  REQUIRE(made);
  return *made;
}

PairOptions paced(const char* name, int64_t gbps, int64_t rtt_us = 10) {
  PairOptions o = options_with(Psn{0xFFFFF0}, kMtu, 16u << 20);
  o.station_a.engine.congestion = preset(name, gbps, rtt_us);
  o.station_a.capabilities.in_flight_limit = 8u << 20;
  o.connect.timeout = 14;  // 67 ms: longer than any queue here
  return o;
}

// WRITEs of `bytes` from a to b, until all are done.
void transfer(Pair& p, uint32_t bytes, uint32_t each = 1u << 20) {
  fill(p.station_a.at(0), bytes, 7);
  uint64_t id = 0;
  for (uint32_t at = 0; at < bytes; at += each, ++id) {
    const Sge sge = p.station_a.sge(at, std::min(each, bytes - at));
    REQUIRE(p.a.send(p.request(Opcode::write, id, {&sge, 1}, at)));
  }
  REQUIRE(p.world.run());
  const std::vector<Completion> done = p.a.sent();
  REQUIRE(done.size() == id);
  for (const Completion& c : done) CHECK(c.status == Status::success);
  CHECK(std::memcmp(p.station_a.at(0), p.station_b.at(0), bytes) == 0);
}

TEST_CASE("packets leave at the rate, in bursts of ten microseconds at most") {
  Pair p(paced("none", 10));
  std::vector<Instant> left;
  p.station_a.tap().filter = [&](const SentFrame&) {
    left.push_back(p.world.now());
    return true;
  };
  transfer(p, 4u << 20);
  REQUIRE(left.size() == 4096);
  const double per_packet = kFrame * 8 / 10e9 * 1e12;  // ps
  const double took = static_cast<double>((left.back() - left.front()).ps);
  CHECK(took == Approx(4095 * per_packet).epsilon(0.01));
  // As many in any stretch of time as the rate allows, and a burst.
  for (size_t i = 0; i < left.size(); ++i) {
    const size_t j = std::min(left.size() - 1, i + 100);
    const double stretch = static_cast<double>((left[j] - left[i]).ps);
    CHECK(stretch >= static_cast<double>(j - i) * per_packet - 10.1e6 - per_packet);
  }
}

TEST_CASE("a window bounds the bytes in flight") {
  PairOptions o = paced("none+win", 100, 4);  // W = 50 KB; the cable alone takes 2 us
  Pair p(o);
  uint64_t sent = 0, most = 0;
  p.station_a.tap().filter = [&](const SentFrame&) {
    ++sent;
    most = std::max(most, sent - (p.b.qp().res.expected - Psn{0xFFFFF0}));
    return true;
  };
  transfer(p, 2u << 20);
  CHECK(most * kMtu <= 50'000 + 64 * kMtu);
  CHECK(most * kMtu >= 20'000);
}

// A READ that comes when the window is full of a WRITE of our own: its answer goes on with the
// first acknowledgement, not with a timer.
TEST_CASE("a READ response that waits for the window leaves when an acknowledgement opens it") {
  PairOptions o = paced("none+win", 1, 400);  // 50 KB, which take 433 us
  o.link.delay = Duration::from_us(500);      // acknowledgements come from 1,000 us on
  Pair p(o);
  Instant first;
  p.station_a.tap().filter = [&](const SentFrame& f) {
    if (f.opcode() == wire::kRcReadResponseFirst) first = p.world.now();
    return true;
  };
  const Sge out = p.station_a.sge(0, 49 * kMtu), in = p.station_b.sge(1u << 20, 4 * kMtu);
  REQUIRE(p.a.send(p.request(Opcode::write, 1, {&out, 1})));
  REQUIRE(p.b.send({.id = 2,
                    .opcode = Opcode::read,
                    .sges = {&in, 1},
                    .remote_address = p.station_a.address_of(0),
                    .rkey = RKey{p.station_a.key()}}));
  REQUIRE(p.world.run());
  CHECK(p.b.only_sent().status == Status::success);
  CHECK(first.ps > Duration::from_us(1000).ps);
  CHECK(first.ps < Duration::from_us(1100).ps);
}

// A cable of 10 Gb/s behind a NIC of 100, as a switch port is.
sim::LinkOptions bottleneck() {
  return {.rate = Rate::from_gbps(10),
          .delay = Duration::from_us(2),
          .queue_bytes = 4u << 20,
          .drops = true,
          .mark_bytes = 100'000};
}

double queue_bytes(const Pair& p) {
  return static_cast<double>(p.link.longest_wait().ps) * 10e9 / 8 / 1e12;
}

TEST_CASE("without congestion control the queue before a slow link holds all that is in flight") {
  PairOptions o = paced("none", 100);
  o.link = bottleneck();
  Pair p(o);
  transfer(p, 3u << 20);
  CHECK(queue_bytes(p) > 2e6);
}

TEST_CASE("with congestion control the queue stays short and the link busy") {
  const char* const name = GENERATE("dcqcn-paper", "dcqcn-nic+win", "dcqcn-hpccsim+win",
                                    "timely+win", "timely-patched+win", "swift", "theta-powertcp");
  INFO(name);
  PairOptions o = paced(name, 100, 12);
  o.link = bottleneck();
  const bool hpccsim = std::string_view(name).starts_with("dcqcn-hpccsim");
  o.station_b.engine.cnp_interval = Duration::from_us(hpccsim ? 0 : 50);
  Pair p(o);
  Instant end;
  p.station_b.tap().filter = [&](const SentFrame&) {
    end = p.world.now();
    return true;
  };
  transfer(p, 12u << 20);
  const double seconds = static_cast<double>(end.ps) / 1e12;
  CHECK(queue_bytes(p) < 2e6);
  CHECK(p.link.dropped() == 0);
  const double gbps = 12.0 * (1 << 20) * 8 / seconds / 1e9;
  INFO("goodput " << gbps << " Gb/s, queue " << queue_bytes(p));
  CHECK(gbps > 5);
  CHECK(p.station_a.count(transport::Count::timeouts) == 0);
}

TEST_CASE(
    "an ECN mark is returned as a CNP, at most one in an interval, roce:C-CC-101 roce:C-CC-102") {
  const int64_t interval_us = GENERATE(0, 50);
  PairOptions o = paced("dcqcn-paper", 100);
  o.link = bottleneck();
  o.station_b.engine.cnp_interval = Duration::from_us(interval_us);
  const uint8_t dscp = interval_us == 0 ? 48 : 41;
  if (dscp != 48) o.station_b.engine.cnp_dscp = dscp;  // 48 is the default
  Pair p(o);
  std::vector<Instant> at;
  uint64_t others = 0;
  p.station_b.tap().filter = [&](const SentFrame& f) {
    if (f.opcode() != wire::kCnp) return ++others, f.path.traffic_class >> 2 == 0;
    at.push_back(p.world.now());
    CHECK(f.path.traffic_class == dscp << 2);  // a class of its own
    CHECK(f.ecn == 0);
    CHECK(f.bytes[1] == std::byte{});  // neither SE nor MigReq, no pad
    CHECK(f.bytes.size() == 12 + 16 + 4);
    CHECK(f.bytes[4] == std::byte{0x40});  // BECN, not FECN
    CHECK(f.bth().dest_qpn == p.a.qp().number.value);
    CHECK(all_are(f.bytes.data() + 8, 4 + 16, std::byte{}));  // PSN 0, and 16 bytes of nothing
    return true;
  };
  p.station_a.tap().filter = [&](const SentFrame& f) {
    CHECK(f.ecn == 2);
    return true;
  };
  transfer(p, 4u << 20);
  REQUIRE(at.size() > 3);
  CHECK(p.station_b.count(transport::Count::tx_cnps) == at.size());
  CHECK(p.station_a.count(transport::Count::rx_cnps) == at.size());
  for (size_t i = 1; i < at.size(); ++i)
    CHECK((at[i] - at[i - 1]).ps >= Duration::from_us(interval_us).ps);
  if (interval_us == 0) CHECK(at.size() * 10 > p.station_b.count(transport::Count::rx_ecn_marked));
}

TEST_CASE("a CNP acts on a queue pair that sends, from its peer only, roce:C-CC-103 threat:A01") {
  Pair p(paced("dcqcn-paper", 100));
  const auto rate = [&] { return p.a.qp().req.pacer->rate(); };
  const double before = rate();
  Forgery f;
  f.bth = {.opcode = wire::kCnp, .dest = p.a.qp().number, .becn = true};
  transport::Path other_source = path_of(p.b);
  other_source.source = Gid::from_ipv4(10, 9, 9, 9);
  give(p.station_a.engine(), other_source, forge(other_source, f), p.world.now());
  CHECK(rate() == before);
  CHECK(p.station_a.count(transport::Count::rx_bad_source) == 1);
  give(p.station_a.engine(), path_of(p.b), forge(path_of(p.b), f), p.world.now());
  CHECK(rate() < before);
  // One without congestion control, and one that is not connected, only count it.
  f.bth.dest = p.b.qp().number;
  give(p.station_b.engine(), path_of(p.a), forge(path_of(p.a), f), p.world.now());
  CHECK(p.station_b.count(transport::Count::rx_cnps) == 1);
  REQUIRE(p.world.run());
}

TEST_CASE("a loss under a controller is retransmitted and reported to it") {
  const char* const name = GENERATE("dcqcn-nic+win", "timely", "swift", "theta-powertcp");
  INFO(name);
  Pair p(paced(name, 40));
  int count = 0;
  p.station_a.tap().filter = [&](const SentFrame&) { return ++count % 100 != 50; };
  transfer(p, 2u << 20, 65536);
  CHECK(p.station_a.count(transport::Count::tx_retransmits) > 0);
}

}  // namespace
}  // namespace weft::test
