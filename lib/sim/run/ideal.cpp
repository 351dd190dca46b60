// SPDX-License-Identifier: BSD-3-Clause
// What a flow would take alone in the network, as the references of the two kinds of scheme define
// it: what slowdowns are measured against.
#include <algorithm>

#include "lib/base/check.hpp"
#include "lib/sim/run/simulation.hpp"

namespace weft::sim::flow {

int64_t ideal_fct_ns(const fabric::Topology& topology, std::span<const uint32_t> path,
                     uint64_t bytes, uint32_t payload, uint32_t header) {
  uint32_t slowest = UINT32_MAX;
  for (const uint32_t port : path) slowest = std::min(slowest, topology.cable(port).mbps);
  WEFT_DCHECK(!path.empty() && slowest > 0);
  const uint64_t packets = (bytes + payload - 1) / payload;
  const uint64_t wire = bytes + packets * header;
  return unloaded_rtt_ns(topology, path, payload) + static_cast<int64_t>(wire * 8000 / slowest);
}

// All packets but the last at the slowest link; the last one there, behind a full one at every
// other link; the acknowledgement back.
int64_t ideal_sprayed_fct_ns(const fabric::Topology& topology, std::span<const uint32_t> path,
                             uint64_t bytes, const Scheme& scheme) {
  const uint64_t packets = (bytes + scheme.payload - 1) / scheme.payload;
  const uint64_t last = bytes - (packets - 1) * scheme.payload + scheme.header;
  const double full = scheme.payload + scheme.header;
  double ns = 0;
  double slowest = 0;  // ns per byte
  for (const uint32_t port : path) {
    const double ns_per_byte = 8000.0 / topology.cable(port).mbps;
    slowest = std::max(slowest, ns_per_byte);
    ns += 2 * static_cast<double>(topology.cable(port).delay_ns) +
          ns_per_byte * (full + scheme.ack_bytes);
  }
  ns += slowest * (static_cast<double>(packets - 1) * full + static_cast<double>(last) - full);
  return static_cast<int64_t>(ns);
}

int64_t ideal_ns(const fabric::Topology& topology, const Scheme& scheme,
                 const fabric::RouteTable& routes, uint32_t flow, const FlowSpec& spec) {
  if (!scheme.sprayed())
    return ideal_fct_ns(topology, routes.forward_path(flow), spec.bytes, scheme.payload,
                        scheme.header);
  return ideal_sprayed_fct_ns(topology, some_path(topology, spec.src, spec.dst), spec.bytes,
                              scheme);
}

}  // namespace weft::sim::flow
