// SPDX-License-Identifier: BSD-3-Clause
// See flow_set.hpp.
#include "lib/sim/run/flow_set.hpp"

#include <algorithm>
#include <map>

namespace weft::sim::flow {

Error row_error(size_t row, const std::string& text) {
  return Error{Code::invalid_argument, "flow " + std::to_string(row + 1) + ": " + text};
}

Result<void> choose_paths(std::span<const FlowSpec> flows, fabric::RouteTable& routes) {
  routes.resize(flows.size());
  std::map<uint64_t, uint32_t> pairs;
  for (uint32_t i = 0; i < flows.size(); ++i) {
    const FlowSpec& spec = flows[i];
    const uint32_t before = pairs[uint64_t{spec.src} << 32 | spec.dst]++;
    const auto src_port =
        static_cast<uint16_t>(spec.src_port >= 0 ? uint32_t(spec.src_port) : 10000 + before);
    const fabric::FlowTuple tuple{spec.src, spec.dst, src_port, spec.dst_port};
    if (spec.path.empty()) {
      routes.choose(i, tuple);
      continue;
    }
    Result<void> set = routes.set(i, tuple, spec.path);
    if (!set) return row_error(i, set.error().message);
  }
  return {};
}

Result<std::vector<uint8_t>> classes_of(std::span<const FlowSpec> flows, const Scheme& scheme) {
  std::vector<uint8_t> classes;
  for (const FlowSpec& spec : flows) classes.push_back(spec.data_class);
  const auto [least, most] = std::minmax_element(classes.begin(), classes.end());
  if (classes.empty() || *least == *most) return std::vector<uint8_t>();
  if (const std::string one = scheme.of_one_class(); !one.empty())
    return Error{Code::invalid_argument,
                 "flows of several classes are given, but " + one + " send all data in one"};
  return classes;
}

Result<void> check_job(const TaskGraph& tasks, std::span<const FlowSpec> flows,
                       const Scheme& scheme) {
  if (scheme.engines)
    return Error{Code::not_supported,
                 "jobs run on light hosts, engines send one message per flow: set host.fidelity "
                 "to flow"};
  return check_tasks(tasks, flows);
}

void take_task_times(const TaskGraph& graph, const std::vector<TaskTimes>& times,
                     RunResult& result) {
  result.tasks = times;
  std::vector<bool> seen(result.flows.size());
  for (size_t number = 0; number < graph.tasks.size(); ++number) {
    const uint32_t flow = graph.tasks[number].flow;
    if (flow == kNoFlow || seen[flow] || times[number].started_ns < 0) continue;
    seen[flow] = true;
    FlowResult& of = result.flows[flow];
    if (of.fct_ns >= 0) of.fct_ns -= times[number].started_ns - of.started_ns;
    of.started_ns = times[number].started_ns;
  }
}

}  // namespace weft::sim::flow
