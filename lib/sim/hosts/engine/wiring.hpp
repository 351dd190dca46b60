// SPDX-License-Identifier: BSD-3-Clause
// State shared by the ports of all hosts: the fabric, the frames in flight, and the flow of each
// queue pair. Of a frame the headers and the length of the payload are stored.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "lib/roce/state/queue_pair.hpp"
#include "lib/sim/fabric/fabric.hpp"
#include "lib/sim/scheme/scheme.hpp"
#include "lib/wire/int_block.hpp"

namespace weft::sim::engines {

// The headers of a frame in flight.
struct alignas(64) StoredFrame {
  // Telemetry, BTH, and the longest that follows it in a WRITE or an acknowledgement.
  static constexpr size_t kMost = sizeof(wire::IntBlock) + 12 + 16;
  uint32_t length = 0;   // of the headers
  uint32_t payload = 0;  // bytes
  std::array<std::byte, kMost> bytes;
};

using FrameStore = fabric::BlockPool<StoredFrame>;

// A flow's queue pairs; null before it starts and when it is done.
struct Connection {
  roce::QueuePair* sender = nullptr;
  roce::QueuePair* receiver = nullptr;
};

struct Wiring {
  const flow::Scheme& scheme;
  fabric::EventWheel& wheel;
  fabric::ChunkPool& pool;
  fabric::Fabric& fabric;
  fabric::TelemetryPool& telemetry;
  FrameStore frames;
  std::vector<Connection> connections;  // by flow

  // The flow of a queue pair.
  struct End {
    uint32_t flow;
    bool receiver;  // of the flow's two ends
  };
  std::unordered_map<uint64_t, End> ends;  // by key()
  static uint64_t key(uint32_t node, QpNum number) noexcept {
    return uint64_t{node} << 24 | number.value;
  }
};

}  // namespace weft::sim::engines
