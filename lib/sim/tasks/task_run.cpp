// SPDX-License-Identifier: BSD-3-Clause
// See task_run.hpp. Chains of work without duration may be long: they are followed by a list, not
// by recursion.
#include "lib/sim/tasks/task_run.hpp"

#include <algorithm>

#include "lib/base/check.hpp"

namespace weft::sim::flow {

TaskRun::TaskRun(const TaskGraph& graph, size_t flows, uint32_t payload)
    : graph_(graph),
      messages_(graph, flows, payload),
      pending_(graph.tasks.size()),
      begun_(graph.tasks.size()),
      times_(graph.tasks.size()),
      remaining_(graph.tasks.size()) {
  index_followers();
}

void TaskRun::index_followers() {
  first_follower_.assign(graph_.tasks.size() + 1, 0);
  for (const Wait& wait : graph_.waits) ++first_follower_[wait.before + 1];
  for (size_t i = 0; i < graph_.tasks.size(); ++i) first_follower_[i + 1] += first_follower_[i];
  followers_.resize(graph_.waits.size());
  std::vector<uint32_t> filled(first_follower_.begin(), first_follower_.end() - 1);
  for (const Wait& wait : graph_.waits) {
    followers_[filled[wait.before]++] = {wait.task, wait.acknowledged};
    ++pending_[wait.task];
  }
}

std::vector<uint32_t> TaskRun::advance(int64_t now) {
  if (!std::exchange(began_, true))
    for (uint32_t task = 0; task < pending_.size(); ++task)
      if (pending_[task] == 0) make_ready(task, now);
  for (const Messages::End& ended : messages_.take_ends()) end(ended.task, ended.acknowledged, now);
  while (!later_.empty() && later_.top().at <= now) {
    const uint32_t task = later_.top().task;
    later_.pop();
    begin(task, now);
  }
  while (!ended_work_.empty()) {
    const uint32_t task = ended_work_.back();
    ended_work_.pop_back();
    end(task, false, now);
    end(task, true, now);
  }
  return std::exchange(released_flows_, {});
}

bool TaskRun::plan_event(int64_t now) noexcept {
  if (planned_ <= now) planned_ = kNever;
  if (next() >= planned_) return false;
  planned_ = next();
  return true;
}

// All that the task waits for has ended.
void TaskRun::make_ready(uint32_t number, int64_t now) {
  const Task& task = graph_.tasks[number];
  const int64_t from = std::max(now, task.start_ns * 1000);
  const int64_t at = from + task.delay_ns * 1000;
  if (task.flow == kNoFlow) times_[number].started_ns = from / 1000;
  if (at > now)
    later_.push({at, number});
  else
    begin(number, now);
}

// Sends a message, or ends work.
void TaskRun::begin(uint32_t number, int64_t now) {
  const uint32_t flow = graph_.tasks[number].flow;
  WEFT_DCHECK(!begun_[number] && pending_[number] == 0);
  begun_[number] = true;
  if (flow == kNoFlow) return ended_work_.push_back(number);
  release(flow, now);
}

// Releases the messages of the flow up to the first that must wait.
void TaskRun::release(uint32_t flow, int64_t now) {
  uint32_t task = 0;
  bool any = false;
  for (; messages_.next_task(flow, task) && begun_[task]; any = true) {
    times_[task].started_ns = now / 1000;
    messages_.release(flow);
  }
  if (any) released_flows_.push_back(flow);
}

void TaskRun::end(uint32_t number, bool acknowledged, int64_t now) {
  TaskTimes& times = times_[number];
  (acknowledged ? times.acknowledged_ns : times.arrived_ns) = now / 1000;
  if (!acknowledged) --remaining_;
  for (uint32_t i = first_follower_[number]; i < first_follower_[number + 1]; ++i) {
    const Follower& follower = followers_[i];
    if (follower.acknowledged != acknowledged) continue;
    WEFT_DCHECK(pending_[follower.task] > 0);
    if (--pending_[follower.task] == 0) make_ready(follower.task, now);
  }
}

}  // namespace weft::sim::flow
