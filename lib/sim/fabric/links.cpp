// SPDX-License-Identifier: BSD-3-Clause
// Links that fail, recover or lose packets while the simulation runs, and packets in flight whose
// path was changed. link_changes.cpp schedules these.
#include "lib/sim/fabric/fabric.hpp"

namespace weft::sim::fabric {

bool Fabric::set_down(uint32_t number, bool down) {
  Port& port = ports_[number];
  if (port.fault.down == down) return false;
  port.fault.down = down;
  port.faulty = down || port.fault.loss > 0;
  if (!down) return false;
  ++port.fault.pfc_epoch;
  port.pausing = false;
  const int64_t now = wheel_.now();
  bool released = port.paused;
  set_paused(port, false, now);
  for (uint32_t c = 1; c < kClasses && classes_.enabled(); ++c) {
    ClassQueue& queue = classes_.queue(number, c);
    queue.pausing = false;
    released |= queue.paused;
    set_paused(queue, false, now);
  }
  if (released && !port.at_host && port.queue_bytes != 0) schedule(number, port);
  return released && port.at_host;
}

void Fabric::set_loss(uint32_t number, double probability) {
  Port& port = ports_[number];
  WEFT_DCHECK(probability >= 0 && probability <= 1);
  port.fault.loss = probability;
  port.faulty = port.fault.down || probability > 0;
}

// True if the link loses the packet, which is discarded. PFC frames are lost only on a link that is
// down: a lost RESUME would pause the port for ever.
bool Fabric::link_loses(const Port& port, const Packet& packet) {
  const Event event = packet.tag.event;
  const LinkFault& fault = port.fault;
  const bool pfc = event == Event::pause || event == Event::resume;
  WEFT_DCHECK(port.faulty == (fault.down || fault.loss > 0));
  if (!fault.down && (pfc || static_cast<double>(random_.next() >> 11) * 0x1p-53 >= fault.loss))
    return false;
  if (pfc)
    ++counters_.pfc_lost;
  else
    discard(packet, counters_.lost);
  return true;
}

// The port of the next node, `port.to`, that the packet leaves through: that of its path if the
// path contains the node, else the one that its flow would take from there. kNone: no route.
uint32_t Fabric::next_port(const Port& port, const Packet& packet) const {
  const bool forward = packet.tag.event == Event::data;
  const uint32_t hop = packet.hop + 1u;
  if (hop < routes_.most_hops()) {
    const uint32_t next =
        forward ? routes_.forward(packet.flow, hop) : routes_.backward(packet.flow, hop);
    if (next != Topology::kNone && ports_[next].node == port.to) return next;
  }
  return routes_.next(packet.flow, port.to, forward);
}

}  // namespace weft::sim::fabric
