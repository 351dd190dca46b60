// SPDX-License-Identifier: BSD-3-Clause
// The smallest world: two stations on one cable, one connected queue pair on each.
#pragma once

#include <algorithm>
#include <cstring>
#include <optional>

#include "tests/virtual_time/world.hpp"

namespace weft::test {

struct PairOptions {
  StationOptions station_a, station_b;
  transport::QpConfig qp_a, qp_b;
  ConnectOptions connect;
  sim::LinkOptions link;
  uint64_t seed = 1;
  uint32_t cq_capacity = 4096;
  bool connected = true;
};

struct Pair {
  World world;
  Station& station_a;
  Station& station_b;
  Endpoint a, b;
  sim::Link& link;  // from a to b

  explicit Pair(const PairOptions& o = {})
      : world(o.seed),
        station_a(world.add_station(o.station_a)),
        station_b(world.add_station(o.station_b)),
        a(station_a, o.qp_a, o.cq_capacity),
        b(station_b, o.qp_b, o.cq_capacity),
        link(world.cable(station_a, station_b, o.link)) {
    if (o.connected) world.connect(a, b, o.connect);
  }

  // a request of `a` towards `b`'s memory.
  SendRequest request(Opcode opcode, uint64_t id, std::span<const Sge> sges,
                      size_t remote_offset = 0) {
    SendRequest r;
    r.id = id;
    r.opcode = opcode;
    r.sges = sges;
    r.remote_address = station_b.address_of(remote_offset);
    r.rkey = RKey{station_b.key()};
    return r;
  }
};

// Bytes that differ from place to place and from seed to seed.
inline void fill(std::byte* at, size_t size, uint64_t seed) {
  uint64_t x = seed * 0x9E3779B97F4A7C15 + 1;
  for (size_t i = 0; i < size; i += sizeof x) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    std::memcpy(at + i, &x, std::min(sizeof x, size - i));
  }
}

inline bool all_are(const std::byte* at, size_t size, std::byte value) {
  for (size_t i = 0; i < size; ++i)
    if (at[i] != value) return false;
  return true;
}

}  // namespace weft::test
