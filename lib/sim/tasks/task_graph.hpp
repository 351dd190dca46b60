// SPDX-License-Identifier: BSD-3-Clause
// A job as the simulator knows it: tasks that wait for each other. A task is a message, which a
// flow carries, or work of a host, which takes time and no network. What a collective schedule, a
// trace or a list of dependent flows means is translated into this outside lib/sim (lib/job).
//
// A flow that carries messages is a connection: it sends them in the order of the list, one after
// the other, with one congestion controller and one path, and is open from its first message on. A
// message may be sent when what it waits for has ended, its delay has passed, and the earlier
// messages of its flow may be sent.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/sim/hosts/flow.hpp"
#include "weft/result.hpp"

namespace weft::sim::flow {

inline constexpr uint32_t kNoFlow = UINT32_MAX;

struct Task {
  uint32_t flow = kNoFlow;  // that carries this message; kNoFlow: work of a host
  uint64_t bytes = 0;       // of a message
  // A message: from the end of what it waits for until it may be sent. Work: how long it takes.
  int64_t delay_ns = 0;
  int64_t start_ns = 0;  // the delay does not begin before
};

// `task` does not begin before `before` has ended: a message when its last byte has arrived, or, if
// `acknowledged`, when its sender knows that, so that the source may be overwritten; work when it
// is done.
struct Wait {
  uint32_t task = 0;
  uint32_t before = 0;
  bool acknowledged = false;
};

struct TaskGraph {
  std::vector<Task> tasks;
  std::vector<Wait> waits;

  // Returns the number of the new task.
  uint32_t add(const Task& task) {
    tasks.push_back(task);
    return static_cast<uint32_t>(tasks.size() - 1);
  }
  void wait(uint32_t task, uint32_t before, bool acknowledged = false) {
    waits.push_back({task, before, acknowledged});
  }
};

// What became of a task, in ns; -1: that did not happen. Work arrives and is acknowledged when it
// is done.
struct TaskTimes {
  int64_t started_ns = -1;
  int64_t arrived_ns = -1;
  int64_t acknowledged_ns = -1;
};

// Fails on a graph that does not fit the flows, or whose tasks wait for each other in a cycle: the
// message names the task. A flow that carries messages has their bytes in all.
Result<void> check_tasks(const TaskGraph& graph, std::span<const FlowSpec> flows);

}  // namespace weft::sim::flow
