// SPDX-License-Identifier: BSD-3-Clause
// Validation of flows, and of the flows selected for output.
#include <algorithm>

#include "lib/sim/run/simulation.hpp"

namespace weft::sim::flow {

Result<void> check_flow(const FlowSpec& spec, const fabric::Topology& topology,
                        const Scheme& scheme) {
  const auto wrong = [](std::string text) {
    return Error{Code::invalid_argument, std::move(text)};
  };
  for (const uint32_t node : {spec.src, spec.dst})
    if (node >= topology.node_count() || !topology.is_host(node))
      return wrong("node " + std::to_string(node) + " is no host of this network");
  if (spec.src == spec.dst) return wrong("src and dst are the same host");
  if (spec.bytes == 0) return wrong("a flow of 0 bytes");
  if (spec.bytes / scheme.payload >= UINT32_MAX - 1)
    return wrong("a flow of so many packets cannot be counted");
  if (spec.data_class == 0 || spec.data_class >= fabric::kClasses)
    return wrong("a data class is 1 to 7");
  if (spec.start_ns < 0) return wrong("a start before 0");
  if (scheme.sprayed() && !spec.path.empty())
    return wrong("a path is given, but " + scheme.name + " sends each packet over one of its own");
  return {};
}

std::vector<uint32_t> series_flows(const RunOptions& options, size_t flows) {
  std::vector<uint32_t> list = options.series_flows;
  for (uint32_t i = 0; options.series_flows.empty() && i < std::min(flows, Series::kFlows); ++i)
    list.push_back(i);
  return list;
}

Result<void> check_outputs(const RunOptions& options, size_t flows) {
  if (options.series_flows.size() > Series::kFlows)
    return Error{Code::invalid_argument, "rates over time are kept of 8 flows at most"};
  const std::vector<uint32_t> life =
      options.life_of ? std::vector{*options.life_of} : std::vector<uint32_t>();
  for (const std::vector<uint32_t>* list : {&options.series_flows, &options.pcap_flows, &life})
    for (const uint32_t flow : *list)
      if (flow >= flows)
        return Error{Code::invalid_argument, "there is no flow " + std::to_string(flow) +
                                                 "; flows are numbered from 0 in the list's order"};
  return {};
}

}  // namespace weft::sim::flow
