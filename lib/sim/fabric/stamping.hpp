// SPDX-License-Identifier: BSD-3-Clause
// What a port writes into the telemetry of a packet that it begins to send.
#pragma once

#include <algorithm>
#include <cstdint>

#include "lib/base/random.hpp"
#include "lib/congestion/digest.hpp"
#include "lib/sim/fabric/port.hpp"
#include "lib/sim/fabric/telemetry.hpp"

namespace weft::sim::fabric {

// An INT record (HPCC simulator): time = start of serialisation, queue = bytes of all classes left
// behind, sent = bytes that the port has sent before this packet. False: the block is full, after a
// detour around a failed link.
inline bool add_record(TelemetryBlock& block, const TelemetrySettings& steps, const Port& port,
                       int64_t now) noexcept {
  if (block.count == congestion::kMaxHops) return false;
  const uint32_t queue = port.queue_bytes + port.control_bytes;
  const auto sent = static_cast<uint32_t>(port.sent_bytes / steps.sent_step * steps.sent_step);
  block.hops[block.count++] = {port.mbps, static_cast<uint32_t>(now / 1000), sent,
                               queue / steps.queue_step * steps.queue_step};
  return true;
}

// The digest of hpcc-pint that the packet carries on (HPCC simulator). Every packet updates the
// port's last record; `counts`: this one enters the average too, and carries its code if that is
// the largest so far.
inline uint32_t update_digest(Port& port, const Packet& packet, const TelemetrySettings& settings,
                              bool counts, int64_t now, base::Random& random) noexcept {
  const congestion::IntHop hop{port.mbps, static_cast<uint32_t>(now / 1000),
                               static_cast<uint32_t>(port.sent_bytes),
                               port.queue_bytes + port.control_bytes};
  if (!counts) return port.digest.skip(hop), packet.stamp;
  const double utilisation = port.digest.pass(hop, settings.base_rtt_ns);
  const double draw = static_cast<double>(random.next() >> 11) * 0x1p-53;
  return std::max<uint32_t>(packet.stamp, congestion::encode_digest(utilisation, draw));
}

}  // namespace weft::sim::fabric
