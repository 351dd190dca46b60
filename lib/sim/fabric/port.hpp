// SPDX-License-Identifier: BSD-3-Clause
// A port: the egress queues of one direction of a cable, and, as an ingress, the buffer accounts
// of the packets that came in through it. Sizes in bytes, times in ps.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/congestion/digest.hpp"
#include "lib/sim/fabric/packet.hpp"

namespace weft::sim::fabric {

// State of the link behind a port (links.cpp).
struct LinkFault {
  bool down = false;
  double loss = 0;         // probability that a packet sent is lost
  uint32_t pfc_epoch = 0;  // times that the link went down: earlier PFC frames are stale
};

struct alignas(64) Port {
  // Read for every packet.
  int64_t free_at = 0;               // end of the serialisation of the packet being sent
  uint64_t sent_bytes = 0;           // of all packets before the next one
  const int64_t* time_of = nullptr;  // serialisation time by packet size
  int64_t delay = 0;
  uint32_t queue_bytes = 0;    // data queued (class 3)
  uint32_t control_bytes = 0;  // control queued (class 0)
  uint32_t to = 0;             // node at the far end
  uint32_t node = 0;
  bool paused = false;     // PFC: class 3 may not leave
  bool scheduled = false;  // a port_free event is in the wheel
  bool at_host = false;    // this end is a host
  bool to_host = false;    // the far end is a host
  uint32_t mbps = 0;
  // Read while packets are queued.
  Fifo data;
  Fifo control;
  // Ingress accounts: bytes that came in through this cable and are still in the switch. Fabrics
  // for sprayed packets do not account by ingress; there the same bytes say what the port is
  // sending. (Two cache lines hold all that a packet touches.)
  enum class Serving : uint8_t { nothing, data, control };
  uint32_t ingress_bytes = 0;  // in the reserve and the shared buffer
  union {
    uint32_t headroom_used = 0;
    uint32_t serving_bytes;  // sprayed: data being sent until free_at, not in queue_bytes
  };
  union {
    uint32_t headroom = 0;
    uint32_t limit;  // sprayed: capacity for data, the packet being sent included
  };
  uint8_t threshold_shift = 0;
  bool pausing = false;                // a PAUSE was sent to the far end, no RESUME yet
  Serving serving = Serving::nothing;  // sprayed: the queue whose first packet is being sent
  bool faulty = false;                 // fault.down, or fault.loss > 0
  // ECN thresholds.
  uint32_t kmin = 0;
  uint32_t kmax = 0;
  // Statistics.
  uint32_t most_bytes = 0;  // maximum of queue_bytes
  int64_t paused_since = 0;
  int64_t paused_time = 0;
  congestion::DigestMeter digest;  // hpcc-pint's average
  double busy_ns = 0;  // serialisation time of counted_bytes, at the rates of their time
  uint64_t counted_bytes = 0;
  LinkFault fault;
};
static_assert(offsetof(Port, most_bytes) <= 128);

// ns that the port has been sending.
inline double busy_ns(const Port& port) noexcept {
  return port.busy_ns +
         static_cast<double>(port.sent_bytes - port.counted_bytes) * 8000.0 / port.mbps;
}

// Of a Port or a ClassQueue: a PAUSE or RESUME takes effect at `now`.
template <class PortOrClass>
void set_paused(PortOrClass& port, bool paused, int64_t now) noexcept {
  if (paused && !port.paused) port.paused_since = now;
  if (!paused && port.paused) port.paused_time += now - port.paused_since;
  port.paused = paused;
}

// Time that data was paused, up to `end`.
template <class PortOrClass>
int64_t paused_time(const PortOrClass& port, int64_t end) noexcept {
  return port.paused_time + (port.paused ? end - port.paused_since : 0);
}

}  // namespace weft::sim::fabric
