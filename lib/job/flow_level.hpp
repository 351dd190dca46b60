// SPDX-License-Identifier: BSD-3-Clause
// The same schedule at flow level: max-min fair flows over the same network (lib/collective/model),
// which knows no queues, controllers or collisions of paths.
#pragma once

#include <vector>

#include "lib/collective/model/topology.hpp"
#include "lib/job/job.hpp"

namespace weft::job {

// How a fabric carries payload.
struct Wire {
  // Of a link's bytes: headers, telemetry and the acknowledgements of equal traffic in the other
  // direction take the rest.
  double payload_share = 1;
  uint32_t packet_bytes = 0;  // a full packet: what a switch waits for before it sends
};
Wire wire_of(const sim::flow::Scheme& scheme);

// The fabric as the models of collectives know networks: rank r is chip r, every other node a
// switch. A rank of several NICs has links of unlimited rate to them. A link's latency is its delay
// and, behind a switch, the serialisation of a packet.
collective::Topology network_of(const sim::scenario::JobSpec& spec,
                                const sim::fabric::Topology& topology, const Wire& wire);

struct FlowLevel {
  double operation_s = 0;          // one bucket, alone
  double step_s = 0;               // a step with its computation
  std::vector<double> port_bytes;  // payload of one operation, by the fabric's ports
};
FlowLevel flow_level(const Job& job, const sim::fabric::Topology& topology,
                     const sim::flow::Scheme& scheme);

}  // namespace weft::job
