// SPDX-License-Identifier: BSD-3-Clause
// Links that fail, come back, or lose packets while the simulation runs, and packets whose path was
// changed under way. When they happen is link_changes.cpp's.
#include "lib/sim/fabric/buffer.hpp"

namespace weft::sim::fabric {

bool Fabric::set_down(uint32_t number, bool down) {
  Port& port = ports_[number];
  if (port.down == down) return false;
  port.down = down;
  port.faulty = down || port.loss > 0;
  if (!down) return false;
  ++port.epoch;
  port.pausing = false;
  bool released = port.paused;
  set_paused(port, false);
  for (uint32_t c = 1; c < kClasses && !lanes_.empty(); ++c) {
    Lane& lane = this->lane(number, c);
    lane.pausing = false;
    released |= lane.paused;
    set_paused(lane, false);
  }
  if (released && !port.at_host && port.queue_bytes != 0) schedule(number, port);
  return released && port.at_host;
}

void Fabric::set_loss(uint32_t number, double share) {
  Port& port = ports_[number];
  port.loss = share;
  port.faulty = port.down || share > 0;
}

// PFC frames are lost only with the whole link: a lost RESUME would stop it for ever.
bool Fabric::lost(const Port& port, const Packet& packet) {
  const Event event = packet.tag.event;
  const bool pfc = event == Event::pause || event == Event::resume;
  if (!port.down && (pfc || static_cast<double>(random_.next() >> 11) * 0x1p-53 >= port.loss))
    return false;
  if (pfc)
    ++counters_.pfc_lost;
  else
    lose(packet);
  return true;
}

void Fabric::lose(const Packet& packet) {
  ++counters_.lost;
  give_back(packet);
}

// The port of the next node, `port.to`, that the packet leaves through: its path's if that leads
// through this node, else the one that its flow would take from here. kNone: there is no way.
uint32_t Fabric::find_way(const Port& port, const Packet& packet) const {
  const bool forward = packet.tag.event == Event::data;
  const uint32_t hop = packet.hop + 1u;
  if (hop < routes_.most_hops()) {
    const uint32_t way =
        forward ? routes_.forward(packet.flow, hop) : routes_.backward(packet.flow, hop);
    if (way != Topology::kNone && ports_[way].node == port.to) return way;
  }
  return routes_.next(packet.flow, port.to, forward);
}

}  // namespace weft::sim::fabric
