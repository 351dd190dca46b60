// SPDX-License-Identifier: BSD-3-Clause
// The tasks of a run: which wait for which, what begins when. The run loop reports the ends of
// messages (through Messages) and the time, and sends what is released.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "lib/sim/tasks/messages.hpp"

namespace weft::sim::flow {

class TaskRun {
 public:
  // The graph must have passed check_tasks() and outlive this.
  TaskRun(const TaskGraph& graph, size_t flows, uint32_t payload);

  Messages& messages() noexcept { return messages_; }
  const Messages& messages() const noexcept { return messages_; }
  // The time of the next start or end that needs no message, in ps; kNever: none.
  int64_t next() const noexcept { return later_.empty() ? kNever : later_.top().at; }
  // After advance(): true if an event at next() must be planned, since no earlier one is.
  bool plan_event(int64_t now) noexcept;
  // Does all that is due at `now`, after messages have ended or at next(). Returns the flows that
  // may send more, in the order of their release; one may be there twice.
  std::vector<uint32_t> advance(int64_t now);
  bool done() const noexcept { return remaining_ == 0; }
  // By task.
  const std::vector<TaskTimes>& times() const noexcept { return times_; }

 private:
  struct Later {
    int64_t at;  // ps
    uint32_t task;
    bool operator>(const Later& o) const noexcept { return at != o.at ? at > o.at : task > o.task; }
  };
  struct Follower {
    uint32_t task;
    bool acknowledged;
  };
  void index_followers();
  void make_ready(uint32_t task, int64_t now);
  void begin(uint32_t task, int64_t now);
  void end(uint32_t task, bool acknowledged, int64_t now);
  void release(uint32_t flow, int64_t now);

  const TaskGraph& graph_;
  Messages messages_;
  std::vector<uint32_t> pending_;  // by task: what it still waits for
  std::vector<uint32_t> first_follower_;
  std::vector<Follower> followers_;
  std::vector<bool> begun_;  // by task: a message may be sent but for the earlier ones of its flow
  std::vector<TaskTimes> times_;
  std::priority_queue<Later, std::vector<Later>, std::greater<>> later_;
  std::vector<uint32_t> ended_work_;
  std::vector<uint32_t> released_flows_;
  size_t remaining_;  // tasks that have not arrived
  bool began_ = false;
  int64_t planned_ = 0;  // ps: the earliest event of the run loop, which plans the first
};

}  // namespace weft::sim::flow
