// SPDX-License-Identifier: BSD-3-Clause
// The shared buffer of a switch and PFC (HPCC simulator). A packet of class 3 is accounted to the
// port it came in through, from its arrival until its serialisation begins: first in the port's
// reserve, then in the shared buffer, up to a threshold that shrinks as the shared buffer fills
// (dynamic threshold), then in the port's headroom, which exists for what is still on the wire
// after a PAUSE. ECN marks by what is left behind in the queue of departure.
//
// Bodies of Fabric's templates, for its own files: a Port has one data class, a Lane is one of
// several.
#pragma once

#include <algorithm>

#include "lib/base/check.hpp"
#include "lib/sim/fabric/fabric.hpp"

namespace weft::sim::fabric {

template <class PortOrLane>
int64_t Fabric::threshold(const PortOrLane& in) const noexcept {
  if (settings_.pause_at != 0) return settings_.pause_at;
  const Switch& node = switches_[in.node];
  return std::max<int64_t>(0, node.pool - node.shared_used) >> in.pause_shift;
}

// False: no room, the packet is dropped.
template <class PortOrLane>
bool Fabric::admit(PortOrLane& in, uint32_t bytes) noexcept {
  const int64_t limit = threshold(in);
  const uint32_t after = in.ingress_bytes + bytes;
  if (after <= settings_.reserve) {
    in.ingress_bytes = after;
    return true;
  }
  const uint32_t above = after - settings_.reserve;
  if (above <= limit) {
    in.ingress_bytes = after;
    switches_[in.node].shared_used += std::min(bytes, above);
    return true;
  }
  if (in.headroom_used + bytes > in.headroom) return false;
  in.headroom_used += bytes;
  return true;
}

template <class PortOrLane>
void Fabric::release(PortOrLane& in, uint32_t bytes) noexcept {
  const uint32_t from_headroom = std::min(in.headroom_used, bytes);
  const uint32_t rest = bytes - from_headroom;
  WEFT_DCHECK(rest <= in.ingress_bytes);
  switches_[in.node].shared_used -= std::min(rest, above_reserve(in));
  in.headroom_used -= from_headroom;
  in.ingress_bytes -= rest;
}

template <class PortOrLane>
void Fabric::pause_if_needed(PortOrLane& in, uint32_t ingress, uint32_t c) {
  if (in.pausing || !settings_.pfc) return;
  if (in.headroom_used == 0 && int64_t{above_reserve(in)} < threshold(in)) return;
  in.pausing = true;
  send_pfc(ingress, Event::pause, c);
}

// Looked at only when a packet of this ingress leaves.
template <class PortOrLane>
void Fabric::resume_if_possible(PortOrLane& in, uint32_t ingress, uint32_t c) {
  if (!in.pausing || in.headroom_used != 0) return;
  const int64_t above = above_reserve(in);
  if (above != 0 && above + settings_.resume_offset > threshold(in)) return;
  in.pausing = false;
  send_pfc(ingress, Event::resume, c);
}

// ECN, on the data left behind: never up to kmin, always above kmax, in proportion between.
template <class PortOrLane>
void Fabric::mark(const PortOrLane& port, Packet& packet) {
  if (port.queue_bytes <= port.kmin || settings_.pmax <= 0) return;
  const double over = double(port.queue_bytes - port.kmin);
  const double chance =
      port.queue_bytes > port.kmax ? 1 : settings_.pmax * over / (port.kmax - port.kmin);
  if (chance < 1 && static_cast<double>(random_.next() >> 11) * 0x1p-53 >= chance) return;
  counters_.marked += !packet.tag.marked;
  packet.tag.marked = true;
}

template <class PortOrLane>
void Fabric::set_paused(PortOrLane& port, bool paused) noexcept {
  if (paused && !port.paused) port.paused_since = wheel_.now();
  if (!paused && port.paused) port.paused_time += wheel_.now() - port.paused_since;
  port.paused = paused;
}

}  // namespace weft::sim::fabric
