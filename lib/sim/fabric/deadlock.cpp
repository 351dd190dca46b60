// SPDX-License-Identifier: BSD-3-Clause
// With no event left but timers, every queued packet is behind a paused port. Each waits for buffer
// at the switch that paused it, so following the pauses ends in a cycle.
#include "lib/sim/fabric/deadlock.hpp"

#include <algorithm>

#include "lib/sim/fabric/statistics.hpp"

namespace weft::sim::fabric {

std::string find_deadlock(const Topology& topology, const Fabric& fabric, const EventWheel& wheel,
                          bool stalled) {
  bool moving = false;
  wheel.each([&](const Packet& packet) { moving |= packet.tag.event != Event::flow_timer; });
  if (moving && !stalled) return {};
  uint32_t port = 0;
  while (port < topology.port_count() && !blocked_by_pause(fabric, port)) ++port;
  if (port == topology.port_count()) return {};
  std::vector<uint32_t> walked;
  while (std::find(walked.begin(), walked.end(), port) == walked.end()) {
    walked.push_back(port);
    for (const uint32_t next : topology.ports_of(topology.to(port)))
      if (blocked_by_pause(fabric, next)) port = next;
  }
  std::string cycle;
  for (auto it = std::find(walked.begin(), walked.end(), port); it != walked.end(); ++it)
    cycle += std::to_string(topology.from(*it)) + " -> ";
  return cycle + std::to_string(topology.from(port));
}

}  // namespace weft::sim::fabric
