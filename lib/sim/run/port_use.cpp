// SPDX-License-Identifier: BSD-3-Clause
// What each direction of each link did.
#include "lib/sim/fabric/statistics.hpp"
#include "lib/sim/run/simulation.hpp"

namespace weft::sim::flow {

std::vector<PortUse> port_use(const fabric::Topology& topology, const fabric::Fabric& fabric,
                              int64_t end) {
  std::vector<PortUse> list;
  for (uint32_t number = 0; number < topology.port_count(); ++number) {
    const fabric::Port& port = fabric.ports()[number];
    const double end_ns = static_cast<double>(end) / 1000;
    list.push_back({.from = topology.from(number),
                    .to = topology.to(number),
                    .utilisation = end > 0 ? fabric::busy_ns(port) / end_ns : 0,
                    .sent_bytes = port.sent_bytes,
                    .most_queue_bytes = port.most_bytes,
                    .paused_ns = fabric::paused_time(fabric, number, end) / 1000});
  }
  return list;
}

uint32_t busiest_port(std::span<const uint32_t> path, std::span<const PortUse> ports) {
  uint32_t busiest = path.back();
  for (const uint32_t port : path)
    if (ports[port].utilisation > ports[busiest].utilisation) busiest = port;
  return busiest;
}

}  // namespace weft::sim::flow
