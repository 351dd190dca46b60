// SPDX-License-Identifier: BSD-3-Clause
// Telemetry in the engine: a block before every BTH of a connection that agreed to it, stamped by
// links, echoed in acknowledgements, outside of the ICRC; what hpcc and dctcp make of it before a
// slow link; and hpcc without telemetry.
#include <algorithm>

#include "lib/congestion/registry.hpp"
#include "lib/wire/int_block.hpp"
#include "tests/virtual_time/forge.hpp"
#include "tests/virtual_time/rc_pair.hpp"

namespace weft::test {
namespace {

constexpr uint32_t kTelemetryMtu = 1024;
constexpr uint16_t kLinkNumber = 0x0042;

congestion::Preset telemetry_preset(const char* name, int64_t gbps, int64_t rtt_us = 44) {
  const Result<congestion::Preset> made = congestion::make_preset(
      name, {.line = Rate::from_gbps(gbps), .rtt = Duration::from_us(rtt_us), .network = {}});
  REQUIRE(made);
  return *made;
}

// NICs of 100 Gb/s, and between them a cable of 10 that stamps.
PairOptions before_slow_link(const char* controller, int64_t delay_us = 20) {
  PairOptions o = options_with(Psn{0xFFFFF0}, kTelemetryMtu, 16u << 20);
  if (controller != nullptr)
    o.station_a.engine.congestion = telemetry_preset(controller, 100, 2 * delay_us + 4);
  o.station_a.capabilities.in_flight_limit = 8u << 20;
  o.connect.timeout = 14;  // 67 ms: longer than any queue here
  o.connect.telemetry = true;
  o.link = {.rate = Rate::from_gbps(10),
            .delay = Duration::from_us(delay_us),
            .queue_bytes = 4u << 20,
            .drops = true,
            .mark_bytes = 30'000,
            .stamp = kLinkNumber,
            .digest_rtt = Duration::from_us(2 * delay_us + 4)};
  return o;
}

// WRITEs of up to 1 MiB, `times` over the same memory.
void post_writes(Pair& p, uint32_t bytes, int times = 1) {
  constexpr uint32_t kEach = 1u << 20;
  fill(p.station_a.at(0), bytes, 7);
  uint64_t id = 0;
  for (int round = 0; round < times; ++round) {
    for (uint32_t at = 0; at < bytes; at += kEach, ++id) {
      const Sge sge = p.station_a.sge(at, std::min(kEach, bytes - at));
      REQUIRE(p.a.send(p.request(Opcode::write, id, {&sge, 1}, at)));
    }
  }
}

void finish_telemetry(Pair& p, uint32_t bytes) {
  REQUIRE(p.world.run());
  for (const Completion& c : p.a.sent()) CHECK(c.status == Status::success);
  CHECK(std::memcmp(p.station_a.at(0), p.station_b.at(0), bytes) == 0);
}

const wire::IntBlock& block_of(const SentFrame& f) {
  REQUIRE(f.path.destination_port == wire::kIntUdpPort);
  const auto* const block = wire::find_int(f.bytes.data(), static_cast<uint32_t>(f.bytes.size()));
  REQUIRE(block != nullptr);
  return *block;
}

TEST_CASE("every frame has a block, which the ICRC does not cover") {
  Pair p(before_slow_link(nullptr));
  uint64_t requests = 0, answers = 0;
  const auto check = [&](const SentFrame& f, bool echo) {
    const wire::IntBlock& block = block_of(f);
    const std::byte* const bth = f.bytes.data() + sizeof block;
    const auto length = static_cast<uint32_t>(f.bytes.size() - sizeof block);
    const wire::OuterHeader outer{&f.path.source, &f.path.destination, f.path.source_port,
                                  wire::kIntUdpPort, f.ip_id};
    CHECK(wire::icrc_verify(outer, bth, length));
    CHECK(block.is_echo() == echo);
    return true;
  };
  p.station_a.tap().filter = [&](const SentFrame& f) {
    ++requests;
    CHECK(block_of(f).hops == 0);
    return check(f, false);
  };
  p.station_b.tap().filter = [&](const SentFrame& f) {
    ++answers;
    const wire::IntBlock& block = block_of(f);
    CHECK(block.hops == 1);
    CHECK(block.path == kLinkNumber);
    CHECK(block.records[0].rate_mbps == 10'000);
    return check(f, true);
  };
  post_writes(p, 100'000);
  finish_telemetry(p, 100'000);
  CHECK(requests == 98);
  CHECK(answers > 0);
  CHECK(p.station_b.count(transport::Count::rx_unagreed_telemetry) == 0);
}

TEST_CASE("READs, atomics and SENDs carry telemetry, under loss, too") {
  PairOptions o = before_slow_link(nullptr);
  o.connect.timeout = 4;
  Pair p(o);
  int count = 0;
  const bool lossy = GENERATE(false, true);
  p.station_a.tap().filter = [&](const SentFrame&) { return !lossy || ++count % 7 != 3; };
  fill(p.station_a.at(0), 20'000, 3);
  fill(p.station_b.at(100'000), 20'000, 4);
  const Sge out = p.station_a.sge(0, 20'000), in = p.station_a.sge(40'000, 20'000),
            word = p.station_a.sge(80'000, 8);
  REQUIRE(p.b.recv(1, {p.station_b.sge(0, 20'000)}));
  REQUIRE(p.a.send(p.request(Opcode::send, 1, {&out, 1})));
  REQUIRE(p.a.send(p.request(Opcode::read, 2, {&in, 1}, 100'000)));
  SendRequest add = p.request(Opcode::fetch_add, 3, {&word, 1}, 200'000);
  add.compare_add = 5;
  REQUIRE(p.a.send(add));
  REQUIRE(p.world.run());
  const std::vector<Completion> done = p.a.sent();
  REQUIRE(done.size() == 3);
  for (const Completion& c : done) CHECK(c.status == Status::success);
  CHECK(std::memcmp(p.station_a.at(0), p.station_b.at(0), 20'000) == 0);
  CHECK(std::memcmp(p.station_a.at(40'000), p.station_b.at(100'000), 20'000) == 0);
  CHECK(p.station_b.at(200'000)[0] == std::byte{5});
}

TEST_CASE("a frame on the wrong port for its queue pair is dropped") {
  const bool agreed = GENERATE(false, true);
  PairOptions o = before_slow_link(nullptr);
  o.connect.telemetry = agreed;
  Pair p(o);
  Forgery f;
  f.bth = {.opcode = wire::kRcSendOnly,
           .ack_request = true,
           .dest = p.b.qp().number,
           .psn = p.b.qp().res.expected};
  transport::Path path = path_of(p.a);
  path.destination_port = agreed ? 4791 : wire::kIntUdpPort;
  std::vector<std::byte> bytes = forge(path, f);
  const wire::IntBlock block;
  const auto* const begin = reinterpret_cast<const std::byte*>(&block);
  if (!agreed) bytes.insert(bytes.begin(), begin, begin + sizeof block);
  give(p.station_b.engine(), path, bytes, p.world.now());
  CHECK(p.station_b.count(transport::Count::rx_unagreed_telemetry) == 1);
  // On that port every frame must begin with a block of our version.
  path.destination_port = wire::kIntUdpPort;
  bytes[0] = std::byte{9};
  give(p.station_b.engine(), path, bytes, p.world.now());
  give(p.station_b.engine(), path, std::span(bytes).first(20), p.world.now());
  CHECK(p.station_b.count(transport::Count::rx_bad_telemetry) == 2);
}

TEST_CASE("a device without telemetry rejects it") {
  PairOptions o = before_slow_link(nullptr);
  o.station_a.capabilities.telemetry = false;
  o.connected = false;
  Pair p(o);
  roce::Engine& engine = p.station_a.engine();
  REQUIRE(engine.modify_qp(p.a.qp(), {.state = QpState::init,
                                      .pkey_index = uint16_t{0},
                                      .port = uint8_t{1},
                                      .access = Access::all}));
  QueuePairAttributes rtr{.state = QpState::rtr};
  rtr.path = AddressVector{.destination = p.station_b.address()};
  rtr.path_mtu = kTelemetryMtu;
  rtr.dest_qpn = p.b.qp().number;
  rtr.rq_psn = Psn{1};
  rtr.max_dest_rd_atomic = rtr.min_rnr_timer = uint8_t{1};
  rtr.telemetry = true;
  const Result<void> refused = engine.modify_qp(p.a.qp(), rtr);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message.find("telemetry=1") != std::string::npos);
}

// The queue before the link and how busy it was, after the start.
struct Seen {
  double utilisation = 0;
  double mean_queue = 0;
  uint64_t p95_queue = 0;
};

Seen watch(Pair& p, Duration warm_up, Duration length) {
  p.world.run_for(warm_up);
  const uint64_t before = p.link.taken_bytes() - p.link.waiting_bytes();
  std::vector<uint64_t> queue;
  const int64_t samples = length.us();
  for (int64_t i = 0; i < samples; ++i) {
    p.world.run_for(Duration::from_us(1));
    queue.push_back(p.link.waiting_bytes());
  }
  const uint64_t left = p.link.taken_bytes() - p.link.waiting_bytes() - before;
  Seen seen;
  seen.utilisation = static_cast<double>(left) * 8 / (static_cast<double>(samples) * 10'000);
  for (const uint64_t bytes : queue)
    seen.mean_queue += static_cast<double>(bytes) / static_cast<double>(samples);
  std::sort(queue.begin(), queue.end());
  seen.p95_queue = queue[queue.size() * 95 / 100];
  return seen;
}

Seen run_with(const char* controller, int64_t delay_us = 20) {
  PairOptions o = before_slow_link(controller, delay_us);
  if (std::string_view(controller).starts_with("dcqcn-hpccsim"))
    o.station_b.engine.cnp_interval = Duration{};
  Pair p(o);
  post_writes(p, 8u << 20, 8);
  const Seen seen = watch(p, Duration::from_ms(15), Duration::from_ms(20));
  CHECK(p.link.dropped() == 0);
  CHECK(p.station_a.count(transport::Count::acks_without_telemetry) == 0);
  finish_telemetry(p, 8u << 20);
  return seen;
}

TEST_CASE("hpcc keeps a shorter queue than dcqcn, and the link busy") {
  const Seen hpcc = run_with("hpcc");
  INFO("hpcc: " << hpcc.utilisation << " of the link, queue " << hpcc.mean_queue << " B, p95 "
                << hpcc.p95_queue << " B");
  CHECK(hpcc.utilisation >= 0.9);
  CHECK(hpcc.p95_queue < 15'000);  // a third of the bandwidth-delay product
  for (const char* rival : {"dcqcn-paper", "dcqcn-hpccsim+win"}) {
    const Seen dcqcn = run_with(rival);
    INFO(rival << ": " << dcqcn.utilisation << " of the link, queue " << dcqcn.mean_queue
               << " B, p95 " << dcqcn.p95_queue << " B");
    CHECK(hpcc.mean_queue * 2 < dcqcn.mean_queue);
    CHECK(hpcc.p95_queue * 2 < dcqcn.p95_queue);
  }
}

// From ten times the link's rate the first window is ten round trips of queue: a controller that
// heeds only how fast the queue drains would give the window back before it has.
TEST_CASE("powertcp uses the same records, at any round trip") {
  const int64_t delay_us = GENERATE(5, 20, 60);
  const Seen seen = run_with("powertcp", delay_us);
  INFO(delay_us << " us: " << seen.utilisation << " of the link, queue " << seen.mean_queue
                << " B, p95 " << seen.p95_queue << " B");
  CHECK(seen.utilisation >= 0.9);
  const double bdp = static_cast<double>(2 * delay_us + 4) * 1250;
  CHECK(static_cast<double>(seen.p95_queue) < bdp / 2);
}

TEST_CASE("hpcc-pint uses one byte of the block") {
  const Seen seen = run_with("hpcc-pint");
  INFO(seen.utilisation << " of the link, queue " << seen.mean_queue << " B, p95 "
                        << seen.p95_queue);
  CHECK(seen.utilisation >= 0.85);
  CHECK(seen.p95_queue < 30'000);
}

TEST_CASE("queue pairs of one device choose their controllers") {
  PairOptions o = before_slow_link("dcqcn-paper");
  o.station_a.engine.conditions = {
      .line = Rate::from_gbps(100), .rtt = Duration::from_us(44), .network = {}};
  o.qp_a.congestion = "hpcc";
  Pair p(o);
  Endpoint device(p.station_a), none(p.station_a, {.congestion = "none+win"});
  Endpoint b2(p.station_b), b3(p.station_b);
  p.world.connect(device, b2, o.connect);
  p.world.connect(none, b3, o.connect);
  CHECK(p.a.qp().req.pacer->window() == 550'000);
  CHECK(none.qp().req.pacer->window() == 550'000);
  CHECK(device.qp().req.pacer->window() == congestion::kNoWindow);
  const transport::QpConfig wrong{.send_cq = p.a.qp().send_cq, .recv_cq = p.a.qp().recv_cq};
  for (const char* const name : {"hpc", "nscc"}) {
    transport::QpConfig config = wrong;
    config.congestion = name;
    CHECK_FALSE(p.station_a.engine().create_qp(config));
  }
  transport::QpConfig unreliable = wrong;
  unreliable.type = QpType::uc;
  unreliable.congestion = "hpcc";
  CHECK_FALSE(p.station_a.engine().create_qp(unreliable));
  post_writes(p, 8u << 20, 4);
  const Seen seen = watch(p, Duration::from_ms(5), Duration::from_ms(10));
  CHECK(seen.p95_queue < 15'000);
  finish_telemetry(p, 8u << 20);
}

TEST_CASE("dctcp gets each mark, and keeps the queue near its threshold") {
  const Seen seen = run_with("dctcp");
  INFO(seen.utilisation << " of the link, queue " << seen.mean_queue << " B, p95 "
                        << seen.p95_queue);
  CHECK(seen.utilisation >= 0.9);
  CHECK(seen.p95_queue < 90'000);
  CHECK(seen.p95_queue > 15'000);
}

TEST_CASE("marks are counted per packet, even if acknowledgements are lost") {
  PairOptions o = before_slow_link("dctcp");
  Pair p(o);
  int answers = 0;
  uint16_t told = 0;
  p.station_b.tap().filter = [&](const SentFrame& f) {
    told = block_of(f).marks;
    return ++answers % 3 != 0;
  };
  post_writes(p, 4u << 20);
  finish_telemetry(p, 4u << 20);
  CHECK(told > 0);
  CHECK(told == p.station_b.count(transport::Count::rx_ecn_marked));
}

TEST_CASE("without telemetry of switches hpcc counts that and uses the host queue") {
  const bool agreed = GENERATE(false, true);  // a path without switches that stamp
  PairOptions o = before_slow_link("hpcc");
  o.station_a.engine.congestion = telemetry_preset("hpcc", 10);
  o.connect.telemetry = agreed;
  o.link.rate = Rate::from_gbps(100);
  o.link.stamp = 0;
  Pair p(o);
  Endpoint a2(p.station_a), b2(p.station_b);
  p.world.connect(a2, b2, o.connect);
  const Sge sge = p.station_a.sge(0, 8u << 20);
  REQUIRE(p.a.send(p.request(Opcode::write, 1, {&sge, 1})));
  REQUIRE(a2.send(p.request(Opcode::write, 2, {&sge, 1})));
  p.world.run_for(Duration::from_ms(2));
  const uint64_t before = p.link.taken_bytes();
  p.world.run_for(Duration::from_ms(4));
  const double gbps = static_cast<double>(p.link.taken_bytes() - before) * 8 / 4e6;
  INFO("both together " << gbps << " Gb/s of a line of 10");
  CHECK(gbps > 8.5);
  CHECK(gbps < 10.2);
  CHECK(p.station_a.count(transport::Count::acks_without_telemetry) > 100);
  REQUIRE(p.world.run());
}

}  // namespace
}  // namespace weft::test
