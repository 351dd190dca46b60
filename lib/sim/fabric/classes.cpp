// SPDX-License-Identifier: BSD-3-Clause
// The switch of fabric.cpp with a queue per class. Every packet is queued and accounted, through an
// idle port too, so that one function schedules.
#include "lib/sim/fabric/classes.hpp"

#include "lib/base/check.hpp"
#include "lib/sim/fabric/fabric.hpp"

namespace weft::sim::fabric {

void Fabric::use_classes(std::vector<uint8_t> class_of_flow) {
  uint32_t used = 0;
  for (const uint8_t c : class_of_flow) used |= 1u << c;
  WEFT_DCHECK((used & 1) == 0 && used >> kClasses == 0);
  classes_.enable(std::move(class_of_flow), ports_.size());
  for (uint32_t number = 0; number < ports_.size(); ++number) {
    const Port& port = ports_[number];
    for (uint32_t c = 1; c < kClasses; ++c) {
      ClassQueue& queue = classes_.queue(number, c);
      queue.node = port.node;
      queue.kmin = port.kmin;
      queue.kmax = port.kmax;
      queue.headroom = port.headroom;
      queue.threshold_shift = port.threshold_shift;
      // set_buffers_and_headroom() subtracted one class' share of the buffer.
      const bool more = (used >> c & 1) != 0 && (used & ((1u << c) - 1)) != 0;
      if (more && !port.at_host) buffer_.subtract_ingress(port.node, queue.headroom);
    }
  }
  buffer_.clamp_capacity();
}

void Fabric::forward_classed(Packet& packet) {
  Port& out = ports_[packet.target];
  const uint32_t c = classes_.class_of(packet.flow);
  ClassQueue& in = classes_.queue(packet.ingress, c);
  if (!buffer_.admit(in, packet.bytes)) return discard(packet, counters_.dropped);
  if (buffer_.begin_pause(in)) send_pfc(packet.ingress, Event::pause, c);
  ClassQueue& queue = classes_.queue(packet.target, c);
  WEFT_DCHECK(in.node == out.node && queue.queue_bytes <= out.queue_bytes);
  out.queue_bytes += packet.bytes;
  queue.queue_bytes += packet.bytes;
  queue.data.push(packet, pool_);
  if (idle(out)) return serve_classed(packet.target);
  out.most_bytes = std::max(out.most_bytes, out.queue_bytes);
  schedule(packet.target, out);
}

uint32_t DataClasses::ready(uint32_t port) const noexcept {
  uint32_t mask = 0;
  for (uint32_t c = 1; c < kClasses; ++c) {
    const ClassQueue& one = queue(port, c);
    if (!one.paused && !one.data.empty()) mask |= 1u << c;
  }
  return mask;
}

void Fabric::serve_classed(uint32_t number) {
  Port& port = ports_[number];
  uint32_t ready = classes_.ready(number);
  if (!port.control.empty()) {
    Packet packet = port.control.pop(pool_);
    port.control_bytes -= packet.bytes;
    transmit(number, packet);
  } else if (ready != 0) {
    const uint32_t c = classes_.pick(number, ready);
    ClassQueue& queue = classes_.queue(number, c);
    Packet packet = queue.data.pop(pool_);
    if (queue.data.empty()) ready &= ~(1u << c);
    classes_.charge(number, c, packet.bytes);
    ClassQueue& in = classes_.queue(packet.ingress, c);
    buffer_.release(in, packet.bytes);
    WEFT_DCHECK(queue.queue_bytes >= packet.bytes && port.queue_bytes >= queue.queue_bytes);
    port.queue_bytes -= packet.bytes;
    queue.queue_bytes -= packet.bytes;
    if (packet.tag.event == Event::data) mark(queue, packet);
    const uint32_t ingress = packet.ingress;
    transmit(number, packet);
    if (buffer_.end_pause(in)) send_pfc(ingress, Event::resume, c);
  }
  if (!port.control.empty() || ready != 0) schedule(number, port);
}

}  // namespace weft::sim::fabric
