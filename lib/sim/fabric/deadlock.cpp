// SPDX-License-Identifier: BSD-3-Clause
// With no event left but timers, packets that stand in queues stand behind paused ports. Each waits
// for room at the switch that paused it: walking on ends in a circle.
#include "lib/sim/fabric/deadlock.hpp"

#include <algorithm>

namespace weft::sim::fabric {

std::string find_deadlock(const Topology& topology, const Fabric& fabric, const EventWheel& wheel,
                          bool stalled) {
  bool moving = false;
  wheel.each([&](const Packet& packet) { moving |= packet.tag.event != Event::flow_timer; });
  if (moving && !stalled) return {};
  uint32_t port = 0;
  while (port < topology.port_count() && !fabric.stuck(port)) ++port;
  if (port == topology.port_count()) return {};
  std::vector<uint32_t> walked;
  while (std::find(walked.begin(), walked.end(), port) == walked.end()) {
    walked.push_back(port);
    for (const uint32_t next : topology.ports_of(topology.to(port)))
      if (fabric.stuck(next)) port = next;
  }
  std::string circle;
  for (auto it = std::find(walked.begin(), walked.end(), port); it != walked.end(); ++it)
    circle += std::to_string(topology.from(*it)) + " -> ";
  return circle + std::to_string(topology.from(port));
}

}  // namespace weft::sim::fabric
