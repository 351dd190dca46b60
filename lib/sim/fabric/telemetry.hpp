// SPDX-License-Identifier: BSD-3-Clause
// In-band telemetry. For HPCC each data packet owns a block in which every switch leaves a record
// when it takes the packet from the queue; the receiver sends the block back in the
// acknowledgement. For hpcc-pint a packet carries one byte, in which a switch leaves the code of
// its own utilisation if that is larger.
#pragma once

#include <array>
#include <cstdint>

#include "lib/congestion/controller.hpp"
#include "lib/sim/fabric/block_pool.hpp"

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

class TelemetryPool : public BlockPool<TelemetryBlock> {
 public:
  // A block without records.
  uint32_t take(uint32_t stamp_ns) {
    const uint32_t index = BlockPool::take();
    (*this)[index].count = 0;
    (*this)[index].stamp_ns = stamp_ns;
    return index;
  }
};

}  // namespace weft::sim::fabric
