// SPDX-License-Identifier: BSD-3-Clause
// In-band telemetry. For HPCC each data packet owns a block in which every switch leaves a record
// when it takes the packet from the queue; the receiver sends the block back in the
// acknowledgement. For hpcc-pint a packet carries one byte, in which a switch leaves the code of
// its own utilisation if that is larger.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "lib/congestion/controller.hpp"

namespace weft::sim::fabric {

enum class Telemetry : uint8_t { none, records, digest };

struct TelemetrySettings {
  Telemetry mode = Telemetry::none;
  // The steps in which a record counts (rounded down): HPCC authors' simulator, 128 B and 80 B
  // times INT_MULTI = NIC Gb/s / 25. 1 is exact.
  uint32_t sent_step = 1;
  uint32_t queue_step = 1;
  double base_rtt_ns = 0;  // T, for the digest
};

struct TelemetryBlock {
  uint32_t count;     // records
  uint32_t stamp_ns;  // when the packet was sent
  std::array<congestion::IntHop, congestion::kMaxHops> hops;
};

class TelemetryPool {
 public:
  uint32_t take(uint32_t stamp_ns) {
    if (free_.empty()) {
      free_.push_back(static_cast<uint32_t>(blocks_.size()));
      blocks_.emplace_back();
    }
    const uint32_t index = free_.back();
    free_.pop_back();
    blocks_[index].count = 0;
    blocks_[index].stamp_ns = stamp_ns;
    return index;
  }
  void give(uint32_t index) { free_.push_back(index); }
  TelemetryBlock& operator[](uint32_t index) noexcept { return blocks_[index]; }
  // Blocks that are lent.
  size_t lent() const noexcept { return blocks_.size() - free_.size(); }

 private:
  std::vector<TelemetryBlock> blocks_;
  std::vector<uint32_t> free_;
};

// A port's average of its utilisation, for the digest.
struct DigestPort {
  double utilisation = 0;
  int64_t last_at = 0;  // ps
  uint32_t last_bytes = 0;
};

}  // namespace weft::sim::fabric
