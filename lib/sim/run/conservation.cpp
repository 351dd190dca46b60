// SPDX-License-Identifier: BSD-3-Clause
// See conservation.hpp.
#include "lib/sim/run/conservation.hpp"

#include "lib/sim/fabric/statistics.hpp"

namespace weft::sim::flow {

InNetwork count_in_network(const fabric::Fabric& fabric, const fabric::EventWheel& wheel) {
  using fabric::Event;
  InNetwork in{.packets = fabric::queued_packets(fabric)};
  wheel.each([&](const fabric::Packet& packet) {
    in.packets += fabric::is_packet(packet.tag.event);
    in.acks += packet.tag.event == Event::ack;
    in.pfc_frames += packet.tag.event == Event::pause || packet.tag.event == Event::resume;
  });
  for (const fabric::Port& port : fabric.ports())
    port.control.each([&](const fabric::Packet& packet) {
      const bool frame = packet.tag.event == Event::pause || packet.tag.event == Event::resume;
      in.pfc_frames += frame;
      in.packets -= frame;
      in.acks += packet.tag.event == Event::ack;
    });
  return in;
}

}  // namespace weft::sim::flow
