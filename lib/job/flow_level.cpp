// SPDX-License-Identifier: BSD-3-Clause
// See flow_level.hpp.
#include "lib/job/flow_level.hpp"

#include <algorithm>

#include "lib/base/check.hpp"
#include "lib/collective/model/flow_model.hpp"

namespace weft::job {
namespace {

constexpr double kUnlimited = 1e15;  // bytes/s, between a rank and its NICs

// Number of each fabric node in the model's network: ranks first, then all others.
std::vector<uint32_t> number_nodes(const sim::scenario::JobSpec& spec,
                                   const sim::fabric::Topology& topology, uint32_t ranks) {
  std::vector<uint32_t> number(topology.node_count(), UINT32_MAX);
  if (spec.nics == 1)
    for (uint32_t rank = 0; rank < ranks; ++rank) number[spec.hosts[rank]] = rank;
  uint32_t next = ranks;
  for (uint32_t& node : number)
    if (node == UINT32_MAX) node = next++;
  return number;
}

}  // namespace

Wire wire_of(const sim::flow::Scheme& scheme) {
  const double data = scheme.payload + scheme.data_overhead;
  // Where acknowledgements are coalesced, one answers several packets.
  const double packets = std::max(1.0, scheme.sprayed() ? scheme.ack_every_bytes / data : 1.0);
  return {.payload_share = scheme.payload / (data + scheme.ack_bytes / packets),
          .packet_bytes = scheme.payload + scheme.data_overhead};
}

collective::Topology network_of(const sim::scenario::JobSpec& spec,
                                const sim::fabric::Topology& topology, const Wire& wire) {
  const auto ranks = static_cast<uint32_t>(spec.hosts.size()) / spec.nics;
  const std::vector<uint32_t> number = number_nodes(spec, topology, ranks);
  collective::Topology network;
  network.name = "fabric";
  network.chips = ranks;
  network.nodes = *std::max_element(number.begin(), number.end()) + 1;
  for (uint32_t port = 0; port < topology.port_count(); ++port) {
    const double bytes_per_s = topology.mbps(port) * 1e6 / 8;
    const double delay_s = static_cast<double>(topology.cable(port).delay_ns) * 1e-9;
    const bool from_host = topology.is_host(topology.from(port));
    network.links.push_back({number[topology.from(port)], number[topology.to(port)],
                             bytes_per_s * wire.payload_share, "link",
                             delay_s + (from_host ? 0 : wire.packet_bytes / bytes_per_s)});
  }
  for (uint32_t i = 0; spec.nics > 1 && i < spec.hosts.size(); ++i)
    network.connect(i / spec.nics, number[spec.hosts[i]], kUnlimited, "host");
  network.cuts.push_back({"one rank", std::vector<bool>(ranks)});
  network.cuts[0].inside[0] = true;
  return network;
}

FlowLevel flow_level(const Job& job, const sim::fabric::Topology& topology,
                     const sim::flow::Scheme& scheme) {
  const collective::Topology network = network_of(job.spec, topology, wire_of(scheme));
  collective::Routes routes(network);
  const collective::Prediction prediction =
      collective::predict(*job.algorithm, job.shape, job.element, job.accumulator, network, routes);
  WEFT_DCHECK(prediction.link_bytes.size() >= topology.port_count());
  FlowLevel result{.operation_s = prediction.seconds};
  result.port_bytes.assign(prediction.link_bytes.begin(),
                           prediction.link_bytes.begin() + topology.port_count());
  // A bucket is sent when it is computed and the one before has been sent.
  const double part_s = static_cast<double>(job.spec.compute_ns / job.spec.buckets) * 1e-9;
  for (uint32_t bucket = 0; bucket < job.spec.buckets; ++bucket)
    result.step_s = std::max(result.step_s, part_s * (bucket + 1)) + prediction.seconds;
  return result;
}

}  // namespace weft::job
