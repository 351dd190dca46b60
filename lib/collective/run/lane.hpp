// SPDX-License-Identifier: BSD-3-Clause
// Lanes: one queue of tasks for each traffic class, with links and an executor of its own. The
// tasks of a lane run one after the other and independently of other lanes.
#pragma once

#include <deque>
#include <span>

#include "lib/collective/run/executor.hpp"
#include "lib/collective/run/task.hpp"

namespace weft::collective {

// When the running task of a lane is to be looked at. All but `steps` are reset by each step.
struct ProgressTimers {
  uint64_t steps = 0;  // Executor::steps_done() when the task was last seen to advance
  Instant next_liveness_check = Instant::never();
  Instant next_keepalive = Instant::never();
  Instant next_probe = Instant::never();
  Instant rendezvous_deadline = Instant::never();  // for advertisements
  Duration probe_interval;                         // doubles with each probe
};

struct Lane {
  Lane(uint32_t of, std::span<Link* const> by_rank)
      : traffic_class(of), links(by_rank), executor(by_rank) {}

  uint32_t traffic_class = 2;
  std::span<Link* const> links;  // by rank; null for this rank
  Executor executor;
  std::deque<TaskPtr> tasks;                     // the front one runs, or is canceled and drains
  RegisteredPtr work, packed;                    // kept from call to call
  uint64_t last_finished = 0;                    // sequence number
  Instant advanced_at;                           // the last start of a task, or step
  Instant scheduled_at;                          // when it last could run
  Instant earliest_deadline = Instant::never();  // of its tasks; may be earlier than that
  ProgressTimers timers;

  Call current_call() const { return tasks.empty() ? Call{} : tasks.front()->call; }
  void push(const TaskPtr& task);
  TaskPtr find(uint64_t sequence) const;  // null: not queued
  void remove(const TaskPtr& task);
};

// The traffic classes of a communicator, the most urgent first.
std::vector<uint32_t> classes_of(const CommunicatorOptions& options);

class LaneSet {
 public:
  // `links`: by lane and rank; they outlive this.
  LaneSet(const std::vector<uint32_t>& classes, const std::vector<std::vector<Link*>>& links);

  auto begin() { return lanes_.begin(); }
  auto end() { return lanes_.end(); }
  auto begin() const { return lanes_.begin(); }
  auto end() const { return lanes_.end(); }
  const Lane& first() const { return lanes_.front(); }

  bool has_class(uint32_t traffic_class) const;
  // A class that this rank has not was used by a rank that called something else: the first lane.
  Lane& of(const Call& call);
  const Lane& of(const Call& call) const { return const_cast<LaneSet*>(this)->of(call); }
  Lane& of(const Link& link) {
    WEFT_DCHECK(link.lane < lanes_.size());
    return lanes_[link.lane];
  }
  const Lane& of(const Link& link) const { return lanes_[link.lane]; }

  bool have_tasks() const;
  Call current_call() const;  // of the first lane that has tasks
  std::vector<uint32_t> awaited_ranks() const;
  uint64_t steps_done() const;
  uint64_t placed() const;

 private:
  std::deque<Lane> lanes_;
};

// One pass over the lanes, the most urgent first. LaneSet yield while a call of a more urgent lane
// advances, and in the pass in which it ends, but for at most half a millisecond: calls may follow
// each other without a pause, and may wait for ranks that wait for a less urgent call.
class PriorityPass {
 public:
  explicit PriorityPass(Instant now) : now_(now) {}
  bool must_yield(const Lane& lane) const;
  // The lane has run. `had_tasks`, `activity_before`: as they were before.
  void on_run(Lane& lane, bool had_tasks, uint64_t activity_before);

 private:
  Instant now_, urgent_until_;
};

// Gives the executor the task's plan and memory, and starts it.
void start_execution(Lane& lane, const Task& task, bool oversubscribed, StepLog& log);

}  // namespace weft::collective
