// SPDX-License-Identifier: BSD-3-Clause
// The switch that carries real frames, between engines in virtual time: every frame comes out once
// or is counted as lost, telemetry and marks are written into the frames, faults do what they say,
// and two senders before one bottleneck share it, with a shorter queue under hpcc than under dcqcn.
#include <algorithm>

#include "lib/congestion/registry.hpp"
#include "lib/sim/frames/switch_node.hpp"
#include "tests/virtual_time/forge.hpp"
#include "tests/virtual_time/rc_pair.hpp"

namespace weft::test {
namespace {

constexpr uint32_t kMbps = 10'000;

congestion::Preset preset(const char* name, uint32_t mbps, int64_t rtt_us) {
  const Result<congestion::Preset> made = congestion::make_preset(
      name,
      {.line = Rate{int64_t{mbps} * 1'000'000}, .rtt = Duration::from_us(rtt_us), .network = {}});
  REQUIRE(made);
  return *made;
}

sim::SwitchOptions star() {
  return {.mbps = {kMbps, kMbps, kMbps},
          .delay = Duration::from_us(2),
          .kmin_us = 20,
          .kmax_us = 80,
          .pmax = 0.2};
}

// Two senders, hosts 0 and 1, to host 2 through the switch.
struct Star {
  World world;
  std::vector<Station*> stations;
  std::unique_ptr<sim::SwitchNode> node;
  std::vector<std::unique_ptr<Endpoint>> from, to;

  Star(const char* controller, const sim::SwitchOptions& options, Duration cnp_interval) {
    StationOptions o;
    o.memory = 16u << 20;
    o.capabilities.in_flight_limit = 8u << 20;
    o.engine.cnp_interval = cnp_interval;
    if (controller != nullptr) o.engine.congestion = preset(controller, kMbps, 12);
    std::vector<sim::Host*> hosts;
    for (int i = 0; i < 3; ++i) stations.push_back(&world.add_station(o));
    for (Station* s : stations) hosts.push_back(&s->host());
    sim::Network& network = world.network();
    Result<std::unique_ptr<sim::Switch>> device =
        sim::Switch::make(options, network.pool(), Instant{});
    REQUIRE(device);
    node = std::make_unique<sim::SwitchNode>(network, std::move(*device), hosts);
    for (sim::Host* host : hosts)
      network.uplink(*host, *node, {.rate = Rate::from_gbps(10), .delay = Duration::from_ns(100)});
    ConnectOptions c;
    c.telemetry = true;
    c.timeout = 14;
    for (int i = 0; i < 2; ++i) {
      from.push_back(std::make_unique<Endpoint>(*stations[i]));
      to.push_back(std::make_unique<Endpoint>(*stations[2]));
      world.connect(*from[i], *to[i], c);
    }
  }

  sim::Switch& device() { return node->device(); }
  // A WRITE from sender `i` to its own half of host 2.
  void write(size_t i, uint32_t bytes, uint64_t id = 1) {
    const Sge sge = stations[i]->sge(0, bytes);
    SendRequest r;
    r.id = id;
    r.opcode = Opcode::write;
    r.sges = {&sge, 1};
    r.remote_address = stations[2]->address_of(i * (8u << 20));
    r.rkey = RKey{stations[2]->key()};
    REQUIRE(from[i]->send(r));
  }
  bool arrived(size_t i, uint32_t bytes) {
    return std::memcmp(stations[i]->at(0), stations[2]->at(i * (8u << 20)), bytes) == 0;
  }
};

TEST_CASE("a switch delivers each frame or counts it as lost") {
  sim::SwitchOptions options = star();
  const bool small = GENERATE(false, true);
  if (small) options.buffer = 60'000;
  Star s("none", options, Duration::from_us(50));
  for (size_t i = 0; i < 2; ++i) {
    fill(s.stations[i]->at(0), 1u << 20, i + 5);
    s.write(i, 1u << 20);
  }
  REQUIRE(s.world.run());
  for (size_t i = 0; i < 2; ++i) {
    CHECK(s.from[i]->only_sent().status == Status::success);
    CHECK(s.arrived(i, 1u << 20));
  }
  const sim::Switch::Counters& c = s.device().counters();
  CHECK(c.frames == c.left + c.dropped + c.faulted);
  CHECK(c.faulted == 0);
  CHECK((c.dropped > 0) == small);
  CHECK(c.marked > 0);
  CHECK(s.device().inside() == 0);
  CHECK(s.device().queue_bytes(2) == 0);
  CHECK(s.node->strays() == 0);
  CHECK(s.world.network().pool().lent() == 0);
}

TEST_CASE("faults are set and cleared") {
  Star s(nullptr, star(), Duration::from_us(50));
  fill(s.stations[0]->at(0), 1u << 20, 5);
  s.device().set_fault(2, {.blackhole = true, .delay = {}});
  s.write(0, 1u << 20);
  s.world.run_for(Duration::from_ms(10));
  CHECK(s.device().counters().left == 0);
  CHECK(s.device().counters().faulted > 0);
  s.device().set_fault(2, {.loss_ppm = 10'000, .trim_ppm = 10'000, .delay = Duration::from_us(30)});
  REQUIRE(s.world.run());
  CHECK(s.from[0]->only_sent().status == Status::success);
  CHECK(s.arrived(0, 1u << 20));
}

TEST_CASE("a switch's INT records are in the units of the wire") {
  sim::PacketPool pool;
  // 800 ps per byte; it begins at an odd time.
  Result<std::unique_ptr<sim::Switch>> made = sim::Switch::make(
      {.mbps = {10'000, 10'000}, .delay = Duration::from_ns(500), .number = 9}, pool, Instant{77});
  REQUIRE(made);
  sim::Switch& device = **made;
  const auto send = [&](Instant now) {
    sim::Packet* const p = pool.take();
    *p = {};
    p->length = 1000 - sim::kWireOverhead;
    p->path.destination_port = wire::kIntUdpPort;
    const wire::IntBlock block;
    std::memcpy(p->bytes, &block, sizeof block);
    device.receive(0, 1, p, now);
  };
  for (int i = 0; i < 3; ++i) send(Instant{77});
  device.run(Instant{77} + Duration::from_ns(1299));
  CHECK(device.departed().empty());
  CHECK(device.queue_bytes(1) == 2000);
  device.run(Instant{77} + Duration::from_us(10));
  REQUIRE(device.departed().size() == 3);
  for (uint32_t i = 0; i < 3; ++i) {
    sim::Packet* const p = device.departed().pop();
    const wire::IntBlock* const block = wire::find_int(p->bytes, p->length);
    REQUIRE(block != nullptr);
    CHECK(block->hops == 1);
    CHECK(block->path == 9);
    CHECK(block->records[0].rate_mbps == 10'000);
    CHECK(block->records[0].time_ns == 500 + 800 * i);
    CHECK(block->records[0].sent_bytes == 1000 * i);
    // The first one met an empty port: the others came in the same instant, behind it.
    CHECK(block->records[0].queue_bytes == (i == 1 ? 1000 : 0));
    pool.give(p);
  }
  // An hour later the counters of the model have wrapped; those on the wire have not.
  const Instant later = Instant{77} + Duration::from_s(3600);
  send(later);
  device.run(later + Duration::from_us(10));
  REQUIRE(device.departed().size() == 1);
  sim::Packet* const p = device.departed().pop();
  CHECK(wire::find_int(p->bytes, p->length)->records[0].time_ns == 3'600'000'000'500);
  CHECK(wire::find_int(p->bytes, p->length)->records[0].sent_bytes == 3000);
  pool.give(p);
  CHECK(pool.lent() == 0);
}

// One frame through a switch of two ports; `change` may do something to it before.
struct Through {
  sim::PacketPool pool;
  std::unique_ptr<sim::Switch> device;

  explicit Through(const sim::SwitchOptions& options)
      : device(*sim::Switch::make(options, pool, Instant{})) {}

  void send(Instant now, uint8_t ecn = 0, uint16_t udp_port = wire::kIntUdpPort) {
    sim::Packet* const p = pool.take();
    *p = {};
    p->length = 1000 - sim::kWireOverhead;
    p->path.destination_port = udp_port;
    p->ecn = ecn;
    const wire::IntBlock block;
    std::memcpy(p->bytes, &block, sizeof block);
    device->receive(0, 1, p, now);
  }
  // Those that have left by `now`: their blocks, and their ECN bits.
  std::vector<std::pair<wire::IntBlock, uint8_t>> left(Instant now) {
    device->run(now);
    std::vector<std::pair<wire::IntBlock, uint8_t>> frames;
    while (!device->departed().empty()) {
      sim::Packet* const p = device->departed().pop();
      wire::IntBlock block;
      std::memcpy(&block, p->bytes, sizeof block);
      frames.emplace_back(block, p->ecn);
      pool.give(p);
    }
    return frames;
  }
};

TEST_CASE("a switch marks only ECN-capable frames and stamps only frames with telemetry") {
  Through t({.mbps = {10'000, 10'000}, .kmin_us = 0.1, .kmax_us = 0.1, .pmax = 1});
  for (const uint8_t ecn : {0, 1, 2, 3, 0}) t.send(Instant{}, ecn);
  t.send(Instant{}, 0, 4791);
  const auto frames = t.left(Instant{} + Duration::from_us(100));
  REQUIRE(frames.size() == 6);
  const uint8_t expected[] = {0, 3, 3, 3, 0, 0};
  for (size_t i = 0; i < 6; ++i) CHECK(frames[i].second == expected[i]);
  for (size_t i = 0; i < 6; ++i) CHECK(frames[i].first.hops == (i == 5 ? 0 : 1));
  CHECK(t.device->counters().marked == 2);
  Through silent({.mbps = {10'000, 10'000}, .telemetry = false});
  silent.send(Instant{});
  CHECK(silent.left(Instant{} + Duration::from_us(100)).at(0).first.hops == 0);
}

TEST_CASE("a fault delays and loses its share, at one port only") {
  Through t({.mbps = {10'000, 10'000}, .delay = Duration::from_us(1)});
  t.device->set_fault(1, {.delay = Duration::from_us(30)});
  t.send(Instant{});
  CHECK(t.left(Instant{} + Duration::from_ns(32'700)).empty());
  CHECK(t.left(Instant{} + Duration::from_ns(32'800)).size() == 1);
  t.device->set_fault(1, {.loss_ppm = 250'000, .delay = {}});
  Instant now = Instant{} + Duration::from_us(100);
  for (int i = 0; i < 1000; ++i) t.send(now = now + Duration::from_us(1));
  const size_t left = t.left(now + Duration::from_us(100)).size();
  CHECK(left > 700);
  CHECK(left < 800);
  CHECK(t.device->counters().faulted == 1000 - left);
  t.device->set_fault(1, {.trim_ppm = 1'000'000, .delay = {}});
  const uint64_t bytes = t.device->sent_bytes(1);
  t.send(now = now + Duration::from_us(200));
  CHECK(t.left(now + Duration::from_us(100)).size() == 1);
  CHECK(t.device->counters().trimmed == 1);
  CHECK(t.device->sent_bytes(1) - bytes == sim::Switch::kTrimmed + sim::kWireOverhead);
  t.device->set_fault(0, {.blackhole = true, .delay = {}});
  t.device->set_fault(1, {});
  t.send(now = now + Duration::from_us(200));
  CHECK(t.left(now + Duration::from_us(100)).size() == 1);
}

TEST_CASE("a switch with digest_rtt writes digests of its utilisation") {
  Through t({.mbps = {10'000, 10'000}, .digest_rtt = Duration::from_us(8)});
  Instant now;
  for (int i = 0; i < 100; ++i) t.send(now = now + Duration::from_ns(1600));  // half full
  const auto half = t.left(now + Duration::from_us(100));
  CHECK(congestion::decode_digest(half.back().first.digest) == Approx(0.5).epsilon(0.15));
  now = now + Duration::from_us(100);
  for (int i = 0; i < 100; ++i)
    t.send(now = now + Duration::from_ns(400));  // twice as much as fits
  const auto full = t.left(now + Duration::from_us(200));
  CHECK(congestion::decode_digest(full.at(50).first.digest) > 2);
}

struct Seen {
  double utilisation = 0;
  double mean_queue = 0;
  double fairness = 0;  // what the slower sender got of the faster one's
};

Seen watch(const char* controller, Duration cnp_interval) {
  Star s(controller, star(), cnp_interval);
  for (size_t i = 0; i < 2; ++i) s.write(i, 8u << 20);
  s.world.run_for(Duration::from_ms(3));
  const auto progress = [&](size_t i) { return s.from[i]->qp().req.una; };
  const uint64_t before = s.device().sent_bytes(2), first = progress(0), second = progress(1);
  Seen seen;
  constexpr int kSamples = 6000;
  for (int i = 0; i < kSamples; ++i) {
    s.world.run_for(Duration::from_us(1));
    seen.mean_queue += s.device().queue_bytes(2) / double{kSamples};
  }
  const auto sent = static_cast<double>(s.device().sent_bytes(2) - before);
  seen.utilisation = sent * 8 / (kSamples * double{kMbps});
  const auto a = static_cast<double>(progress(0) - first);
  const auto b = static_cast<double>(progress(1) - second);
  seen.fairness = std::min(a, b) / std::max(a, b);
  CHECK(s.device().counters().dropped == 0);
  REQUIRE(s.world.run());
  return seen;
}

TEST_CASE("two senders, one bottleneck: hpcc's queue is shorter than dcqcn's") {
  const Seen hpcc = watch("hpcc", Duration::from_us(50));
  const Seen dcqcn = watch("dcqcn-paper", Duration::from_us(50));
  INFO("hpcc: " << hpcc.utilisation << " of the link, queue " << hpcc.mean_queue << " B, fairness "
                << hpcc.fairness);
  INFO("dcqcn: " << dcqcn.utilisation << " of the link, queue " << dcqcn.mean_queue
                 << " B, fairness " << dcqcn.fairness);
  CHECK(hpcc.utilisation >= 0.9);
  CHECK(hpcc.fairness > 0.7);
  CHECK(hpcc.mean_queue * 2 < dcqcn.mean_queue);
}

TEST_CASE("a switch of one port, or of a port without a rate, is refused") {
  sim::PacketPool pool;
  CHECK_FALSE(sim::Switch::make({.mbps = {1000}}, pool, Instant{}));
  CHECK_FALSE(sim::Switch::make({.mbps = {1000, 0}}, pool, Instant{}));
}

}  // namespace
}  // namespace weft::test
