// SPDX-License-Identifier: BSD-3-Clause
// The shared buffer of a switch and PFC (facts 6.1 f). A packet of class 3 is accounted to the port
// it came in through, from its arrival until its serialisation begins: first in the port's reserve,
// then in the shared buffer, up to a threshold that shrinks as the shared buffer fills (dynamic
// threshold), then in the port's headroom, which exists for what is still on the wire after a
// PAUSE.
#include <algorithm>

#include "lib/base/check.hpp"
#include "lib/sim/fabric/fabric.hpp"

namespace weft::sim::fabric {

int64_t Fabric::threshold(const Port& in) const noexcept {
  if (settings_.pause_at != 0) return settings_.pause_at;
  const Switch& node = switches_[in.node];
  return std::max<int64_t>(0, node.pool - node.shared_used) >> in.pause_shift;
}

// False: no room, the packet is dropped.
bool Fabric::admit(Port& in, uint32_t bytes) noexcept {
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

void Fabric::release(Port& in, uint32_t bytes) noexcept {
  const uint32_t from_headroom = std::min(in.headroom_used, bytes);
  const uint32_t rest = bytes - from_headroom;
  WEFT_DCHECK(rest <= in.ingress_bytes);
  switches_[in.node].shared_used -= std::min(rest, above_reserve(in));
  in.headroom_used -= from_headroom;
  in.ingress_bytes -= rest;
}

void Fabric::pause_if_needed(uint32_t ingress) {
  Port& in = ports_[ingress];
  if (in.pausing || !settings_.pfc) return;
  if (in.headroom_used == 0 && int64_t{above_reserve(in)} < threshold(in)) return;
  in.pausing = true;
  send_pfc(ingress, Event::pause);
}

// Looked at only when a packet of this ingress leaves.
void Fabric::resume_if_possible(uint32_t ingress) {
  Port& in = ports_[ingress];
  if (!in.pausing || in.headroom_used != 0) return;
  const int64_t above = above_reserve(in);
  if (above != 0 && above + settings_.resume_offset > threshold(in)) return;
  in.pausing = false;
  send_pfc(ingress, Event::resume);
}

// A PFC frame goes back through the port's own cable, in class 0.
void Fabric::send_pfc(uint32_t number, Event event) {
  Port& port = ports_[number];
  Packet frame{};
  frame.tag.event = event;
  frame.tag.control = true;
  frame.bytes = static_cast<uint16_t>(settings_.pause_bytes);
  frame.number = port.epoch;
  ++counters_.pfc_sent;
  if (frame.bytes == 0) {
    if (port.faulty && lost(port, frame)) return;
    frame.at = wheel_.now() + port.delay;
    frame.target = number ^ 1;
    return wheel_.push(frame);
  }
  if (idle(port)) return transmit(number, frame);
  port.control_bytes += frame.bytes;
  port.control.push(frame, pool_);
  schedule(number, port);
}

// Takes effect after the packet being sent, and lasts until the resume frame.
bool Fabric::pfc_arrived(const Packet& frame) {
  Port& port = ports_[frame.target];
  const bool pauses = frame.tag.event == Event::pause;
  ++(pauses ? counters_.pauses : counters_.resumes);
  if (frame.number != port.epoch) return false;
  if (pauses && !port.paused) port.paused_since = wheel_.now();
  if (!pauses && port.paused) port.paused_time += wheel_.now() - port.paused_since;
  port.paused = pauses;
  if (pauses || port.at_host) return !pauses && port.at_host;
  if (idle(port))
    serve(frame.target);
  else
    schedule(frame.target, port);
  return false;
}

}  // namespace weft::sim::fabric
