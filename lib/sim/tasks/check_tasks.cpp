// SPDX-License-Identifier: BSD-3-Clause
// Validation of a task graph. Kahn's algorithm finds cycles; the messages of a flow wait for the
// earlier ones of it, too.
#include <string>

#include "lib/sim/tasks/task_graph.hpp"

namespace weft::sim::flow {
namespace {

Error wrong(uint32_t task, const std::string& text) {
  return {Code::invalid_argument, "task " + std::to_string(task) + ": " + text};
}

Result<void> check_each(const TaskGraph& graph, std::span<const FlowSpec> flows) {
  std::vector<uint64_t> bytes(flows.size());
  for (uint32_t number = 0; number < graph.tasks.size(); ++number) {
    const Task& task = graph.tasks[number];
    if (task.delay_ns < 0 || task.start_ns < 0) return wrong(number, "has a time before 0");
    if (task.delay_ns > kNever / 4000 || task.start_ns > kNever / 4000)
      return wrong(number, "has a time beyond 26 days");
    if (task.flow == kNoFlow) continue;
    if (task.flow >= flows.size())
      return wrong(number, "is a message of flow " + std::to_string(task.flow) + ", there are " +
                               std::to_string(flows.size()));
    if (task.bytes == 0) return wrong(number, "is a message of 0 bytes");
    bytes[task.flow] += task.bytes;
  }
  for (uint32_t flow = 0; flow < flows.size(); ++flow)
    if (bytes[flow] != 0 && bytes[flow] != flows[flow].bytes)
      return Error{Code::invalid_argument,
                   "flow " + std::to_string(flow) + " has " + std::to_string(flows[flow].bytes) +
                       " bytes, its messages " + std::to_string(bytes[flow])};
  for (const Wait& wait : graph.waits)
    for (const uint32_t number : {wait.task, wait.before})
      if (number >= graph.tasks.size())
        return wrong(number, "is waited for or waits, but there are only " +
                                 std::to_string(graph.tasks.size()));
  return {};
}

}  // namespace

Result<void> check_tasks(const TaskGraph& graph, std::span<const FlowSpec> flows) {
  if (Result<void> good = check_each(graph, flows); !good) return good;
  const size_t count = graph.tasks.size();
  std::vector<Wait> waits = graph.waits;
  std::vector<uint32_t> last(flows.size(), kNoFlow);
  for (uint32_t number = 0; number < count; ++number) {
    const uint32_t flow = graph.tasks[number].flow;
    if (flow == kNoFlow) continue;
    if (last[flow] != kNoFlow) waits.push_back({number, last[flow]});
    last[flow] = number;
  }
  std::vector<uint32_t> first(count + 1), pending(count), followers(waits.size());
  for (const Wait& wait : waits) {
    ++first[wait.before + 1];
    ++pending[wait.task];
  }
  for (size_t i = 0; i < count; ++i) first[i + 1] += first[i];
  std::vector<uint32_t> filled(first.begin(), first.end() - 1);
  for (const Wait& wait : waits) followers[filled[wait.before]++] = wait.task;
  std::vector<uint32_t> free;
  for (uint32_t number = 0; number < count; ++number)
    if (pending[number] == 0) free.push_back(number);
  for (size_t i = 0; i < free.size(); ++i)
    for (uint32_t f = first[free[i]]; f < first[free[i] + 1]; ++f)
      if (--pending[followers[f]] == 0) free.push_back(followers[f]);
  for (uint32_t number = 0; free.size() < count && number < count; ++number)
    if (pending[number] != 0) return wrong(number, "waits for itself, through other tasks");
  return {};
}

}  // namespace weft::sim::flow
