// SPDX-License-Identifier: BSD-3-Clause
// See swarm_config.hpp.
#include "tests/roce/swarm/swarm_config.hpp"

#include <algorithm>

#include "lib/base/random.hpp"
#include "lib/congestion/registry.hpp"

namespace weft::test {

namespace {

using base::Random;
using middleware::FaultDirection;
using middleware::FaultOptions;

bool coin(Random& r, uint32_t per_cent) { return r.below(100) < per_cent; }
uint32_t between(Random& r, uint32_t low, uint32_t high) {
  return low + static_cast<uint32_t>(r.below(high - low + 1));
}
// About uniform in its logarithm.
uint32_t around(Random& r, uint32_t low, uint32_t high) {
  uint32_t octaves = 0;
  while (low << (octaves + 1) <= high) ++octaves;
  const uint32_t base = low << r.below(octaves + 1);
  return std::min(high, between(r, base, 2 * base - 1));
}

FaultOptions draw_faults(Random& r) {
  FaultOptions f;
  f.seed = r.next();
  const auto rate = [&r](uint32_t highest) { return coin(r, 35) ? around(r, 500, highest) : 0; };
  f.loss = rate(150'000);
  f.burst = coin(r, 20) ? around(r, 100, 4'000) : 0;
  f.burst_frames = between(r, 2, 60);
  f.ack_loss = rate(300'000);
  f.dup = rate(200'000);
  f.reorder = rate(150'000);
  f.reorder_time = Duration::from_us(between(r, 1, coin(r, 20) ? 2000 : 40));
  f.corrupt = rate(60'000);
  f.truncate = rate(40'000);
  f.pad = rate(40'000);
  f.merge = rate(40'000);
  f.ecn = rate(400'000);
  if (coin(r, 20)) f.delay = Duration::from_us(between(r, 1, 50));
  if (coin(r, 20)) f.jitter = Duration::from_us(between(r, 1, 30));
  if (coin(r, 10)) {
    f.blackhole = static_cast<FaultDirection>(between(r, 1, 3));
    f.flap_up = Duration::from_us(between(r, 100, 5000));
    f.flap_down = Duration::from_us(between(r, 10, coin(r, 20) ? 20'000 : 1000));
  }
  f.direction = coin(r, 60) ? FaultDirection::both : static_cast<FaultDirection>(between(r, 1, 2));
  return f;
}

congestion::Preset draw_congestion(Random& r) {
  constexpr const char* kNames[] = {"none",   "dcqcn-paper",    "dcqcn-nic", "dcqcn-hpccsim+win",
                                    "timely", "timely-patched", "swift",     "theta-powertcp"};
  // One after the other: compilers evaluate arguments in different orders.
  const char* const name = kNames[r.below(std::size(kNames))];
  const Rate line = Rate::from_gbps(around(r, 10, 200));
  const Duration rtt = Duration::from_us(around(r, 2, 50));
  return *congestion::make_preset(name, {.line = line, .rtt = rtt, .network = {}});
}

StationOptions draw_station(Random& r, uint32_t index, bool ipv4) {
  StationOptions s;
  if (ipv4) s.address = Gid::from_ipv4(10, 0, 0, static_cast<uint8_t>(index + 1));
  s.capabilities.burst = around(r, 1, 64);
  s.capabilities.in_flight_limit = around(r, 16384, 1u << 20);
  if (coin(r, 30)) {
    s.capabilities.train_frames = between(r, 2, 64);
    s.capabilities.train_bytes = 65000;
  }
  s.engine.credits = coin(r, 70);
  if (coin(r, 40)) s.engine.congestion = draw_congestion(r);
  s.engine.cnp_interval = Duration::from_us(between(r, 0, 60));
  s.turns.turn = Duration::from_ns(around(r, 100, 4000));
  s.turns.burst = around(r, 1, 64);
  s.memory = size_t{1} << 30;
  return s;
}

SwarmConnection draw_connection(Random& r, uint32_t stations) {
  SwarmConnection c;
  c.a = between(r, 0, stations - 1);
  c.b = coin(r, 10) ? c.a : (c.a + between(r, 1, stations - 1)) % stations;
  const auto draw_psn = [&r] {
    return Psn{coin(r, 40) ? 0xFFFF00 + between(r, 0, 255) : between(r, 0, 0xFFFFFF)};
  };
  c.connect.mtu = 256u << r.below(5);
  c.connect.psn_a = draw_psn();
  c.connect.psn_b = draw_psn();
  c.connect.max_rd_atomic = static_cast<uint8_t>(around(r, 1, 16));
  c.connect.max_dest_rd_atomic = static_cast<uint8_t>(
      coin(r, 70) ? c.connect.max_rd_atomic : between(r, c.connect.max_rd_atomic, 32));
  c.connect.min_rnr_timer = static_cast<uint8_t>(between(r, 1, 10));
  c.connect.timeout = static_cast<uint8_t>(between(r, 5, 9));
  c.connect.retry_count = static_cast<uint8_t>(coin(r, 85) ? 7 : between(r, 1, 7));
  c.connect.rnr_retry = static_cast<uint8_t>(coin(r, 85) ? 7 : between(r, 1, 7));
  c.depth = around(r, 1, 64);
  c.receives = around(r, 1, 64);
  c.largest = coin(r, 4) ? 1u << 20 : around(r, 64, 256u << 10);
  if (c.largest > 65536) c.depth = std::min(c.depth, 8u), c.receives = std::min(c.receives, 8u);
  c.qp.max_send_wr = c.depth + between(r, 0, 3);
  c.qp.max_recv_wr = c.receives;
  c.qp.max_inline = coin(r, 50) ? between(r, 8, 256) : 0;
  c.qp.signal_all = coin(r, 10);
  c.think = Duration::from_ns(around(r, 200, 20'000));
  for (uint32_t& weight : c.weights) weight = coin(r, 70) ? between(r, 1, 10) : 0;
  c.weights[static_cast<size_t>(Opcode::write)] += 1;
  c.unsignaled_ppm = coin(r, 50) ? between(r, 0, 900'000) : 0;
  c.bad_ppm = coin(r, 15) ? between(r, 100, 5000) : 0;
  return c;
}

SwarmConnection draw_unreliable(Random& r, uint32_t stations) {
  SwarmConnection c;
  c.a = between(r, 0, stations - 1);
  c.b = (c.a + between(r, 1, stations - 1)) % stations;
  c.qp.type = coin(r, 50) ? QpType::uc : QpType::ud;
  c.connect.mtu = 256u << r.below(5);
  c.connect.psn_a = Psn{coin(r, 40) ? 0xFFFF00 + between(r, 0, 255) : between(r, 0, 0xFFFFFF)};
  c.connect.psn_b = Psn{between(r, 0, 0xFFFFFF)};
  c.depth = around(r, 1, 64);
  c.receives = around(r, 2, 64);
  c.largest = c.qp.type == QpType::ud ? around(r, 64, 4096) : around(r, 64, 32768);
  c.qp.max_send_wr = c.depth;
  c.qp.max_recv_wr = c.receives;
  c.think = Duration::from_ns(around(r, 500, 20'000));
  c.shares = coin(r, 40);
  return c;
}

}  // namespace

SwarmConfig draw_swarm(uint64_t seed) {
  Random r(seed * 0x9E3779B97F4A7C15 + 0x5EED);
  SwarmConfig c;
  c.seed = seed;
  c.packets = around(r, 1000, 16'000);
  c.faulty = !coin(r, 8);
  const uint32_t stations = between(r, 2, 4);
  const bool ipv4 = coin(r, 50);
  const bool hides_id = ipv4 && coin(r, 25);
  for (uint32_t i = 0; i < stations; ++i) {
    c.stations.push_back(draw_station(r, i, ipv4));
    c.stations.back().hides_ip_id = hides_id;
    FaultOptions faults = draw_faults(r);
    // 16 bits of check are not enough for a test that breaks every twentieth frame.
    if (hides_id) faults.corrupt = faults.truncate = faults.pad = faults.merge = 0;
    c.faults.push_back(c.faulty ? faults : FaultOptions{});
  }
  for (uint32_t i = 0; i < stations * (stations + 1) / 2; ++i) {
    c.cables.push_back({.rate = Rate::from_gbps(coin(r, 20) ? 10 : 100),
                        .delay = Duration::from_ns(around(r, 100, 20'000)),
                        .queue_bytes = around(r, 16384, 1u << 20),
                        .drops = c.faulty && coin(r, 30)});
  }
  const uint32_t connections = between(r, 1, 8);
  for (uint32_t i = 0; i < connections; ++i) {
    c.connections.push_back(draw_connection(r, stations));
    if (c.faulty) continue;
    // Without faults nothing may fail, so timeouts are long.
    c.connections.back().connect.timeout = 12;
    c.connections.back().connect.retry_count = 7;
  }
  for (SwarmConnection& connection : c.connections) connection.xrc = coin(r, 30);
  for (uint32_t i = between(r, 0, 4); i > 0; --i)
    c.unreliable.push_back(draw_unreliable(r, stations));
  for (SwarmConnection& connection : c.connections)
    connection.connect.selective_repeat = coin(r, 60);
  c.links_fail = coin(r, 25) && c.faulty;
  return c;
}

}  // namespace weft::test
