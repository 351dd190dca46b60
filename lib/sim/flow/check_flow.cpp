// SPDX-License-Identifier: BSD-3-Clause
// What a flow list may say.
#include "lib/sim/flow/simulation.hpp"

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

}  // namespace weft::sim::flow
