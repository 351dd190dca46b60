// SPDX-License-Identifier: BSD-3-Clause
// The switch of fabric.cpp with a lane per class. Every packet is queued and accounted, through an
// idle port too: who goes is decided in one place.
#include "lib/sim/fabric/classes.hpp"

#include <algorithm>

#include "lib/sim/fabric/buffer.hpp"

namespace weft::sim::fabric {

void Fabric::use_classes(std::vector<uint8_t> class_of_flow) {
  class_of_flow_ = std::move(class_of_flow);
  uint32_t used = 0;
  for (const uint8_t c : class_of_flow_) used |= 1u << c;
  lanes_.resize(ports_.size() * kClasses);
  turns_.resize(ports_.size());
  for (uint32_t number = 0; number < ports_.size(); ++number) {
    const Port& port = ports_[number];
    for (uint32_t c = 1; c < kClasses; ++c) {
      Lane& lane = this->lane(number, c);
      lane.node = port.node;
      lane.kmin = port.kmin;
      lane.kmax = port.kmax;
      lane.headroom = port.headroom;
      lane.pause_shift = port.pause_shift;
      // One class' share was taken from the pool by make_switches().
      const bool more = (used >> c & 1) != 0 && (used & ((1u << c) - 1)) != 0;
      if (more && !port.at_host)
        switches_[port.node].pool -= int64_t{lane.headroom} + settings_.reserve;
    }
  }
  for (Switch& node : switches_) node.pool = std::max<int64_t>(node.pool, 0);
}

void Fabric::forward_classed(Packet& packet) {
  Port& out = ports_[packet.target];
  const uint32_t c = class_of(packet.flow);
  Lane& in = lane(packet.ingress, c);
  if (!admit(in, packet.bytes)) return drop(packet);
  pause_if_needed(in, packet.ingress, c);
  Lane& queue = lane(packet.target, c);
  out.queue_bytes += packet.bytes;
  queue.queue_bytes += packet.bytes;
  queue.data.push(packet, pool_);
  if (idle(out)) return serve_classed(packet.target);
  out.most_bytes = std::max(out.most_bytes, out.queue_bytes);
  schedule(packet.target, out);
}

uint32_t Fabric::classes_waiting(uint32_t number) const noexcept {
  uint32_t mask = 0;
  for (uint32_t c = 1; c < kClasses; ++c) {
    const Lane& lane = lanes_[size_t{number} * kClasses + c];
    if (!lane.paused && !lane.data.empty()) mask |= 1u << c;
  }
  return mask;
}

void Fabric::serve_classed(uint32_t number) {
  Port& port = ports_[number];
  uint32_t waiting = classes_waiting(number);
  if (!port.control.empty()) {
    Packet packet = port.control.pop(pool_);
    port.control_bytes -= packet.bytes;
    transmit(number, packet);
  } else if (waiting != 0) {
    const uint32_t c = pick_class(number, waiting);
    Lane& queue = lane(number, c);
    Packet packet = queue.data.pop(pool_);
    if (queue.data.empty()) waiting &= ~(1u << c);
    charge_class(number, c, packet.bytes);
    Lane& in = lane(packet.ingress, c);
    release(in, packet.bytes);
    port.queue_bytes -= packet.bytes;
    queue.queue_bytes -= packet.bytes;
    if (packet.tag.event == Event::data) mark(queue, packet);
    const uint32_t ingress = packet.ingress;
    transmit(number, packet);
    resume_if_possible(in, ingress, c);
  }
  if (!port.control.empty() || waiting != 0) schedule(number, port);
}

}  // namespace weft::sim::fabric
