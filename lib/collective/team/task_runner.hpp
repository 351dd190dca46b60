// SPDX-License-Identifier: BSD-3-Clause
// Runs the tasks of all lanes, in order within each lane, and keeps what is known about calls: the
// history, cancellations, callbacks and the trace. Every function that may detect a failure returns
// it; its owner then calls stop(), after which no task runs.
#pragma once

#include "lib/collective/faults/mismatch.hpp"
#include "lib/collective/model/selector.hpp"
#include "lib/collective/run/callbacks.hpp"
#include "lib/collective/run/peer_connections.hpp"
#include "lib/collective/run/processor.hpp"

namespace weft::collective {

// What makes plans of calls, and remembers those made lately.
struct Planning {
  PlanCache plans;
  RecipeBook recipes;
  std::unique_ptr<Selector> selector;  // null: the options name no network
  uint8_t barrier_result = 0;          // a barrier is an all-reduce of one byte
};

class TaskRunner {
 public:
  // All but `classes` outlive this.
  TaskRunner(PeerConnections& connections, const std::vector<uint32_t>& classes, Planning& planning,
             const Processor& processor)
      : connections_(connections),
        planning_(planning),
        processor_(processor),
        lanes_(classes, connections.lanes) {}

  LaneSet& lanes() { return lanes_; }
  const LaneSet& lanes() const { return lanes_; }
  const CallHistory& history() const { return history_; }
  const Cancellations& cancellations() const { return cancellations_; }
  Callbacks& callbacks() { return callbacks_; }
  const Trace& trace() const { return trace_; }
  StepLog& log() { return trace_.steps(); }
  LocalCalls local() const { return {connections_.rank, history_, cancellations_}; }

  // `task->issued` is set.
  MaybeFailure issue(const TaskPtr& task);
  // Runs tasks as far as they go: with priorities between lanes, or once for each lane.
  MaybeFailure run_by_priority(Instant now);
  MaybeFailure run_all();
  // A lane has steps that are ready, but yielded or had its share.
  bool cut_short() const { return cut_short_; }
  // Whether to run in a turn in which no completion arrived: tasks that are not cut short wait for
  // completions, so it is enough now and then.
  bool should_run_idle();
  void run_next_turn() { idle_turns_ = kRunNext; }

  // Cancels a call on this rank and sends notices. A no-op if that has been done.
  MaybeFailure cancel(const Call& call, uint32_t by, std::string_view reason);
  // Cancels an exchange on this rank only. Errors: bad_state: a piece of it has been transferred.
  Result<void> withdraw(const Task& task, std::string_view reason);
  MaybeFailure on_cancel_notice(const Link& link, const ControlMessage& notice);
  void send_cancel_notices();

  void stop();
  // After stop(): all tasks end with this error.
  void end_all(const Error& error);
  // Adds a task that has ended to the trace.
  void record(Task& task, bool failed);

 private:
  MaybeFailure run_lane(Lane& lane);
  MaybeFailure start(Lane& lane, Task& task);
  MaybeFailure check_unconsumed(const Lane& lane) const;
  void end_front(Lane& lane);
  void end(const TaskPtr& task);

  static constexpr uint32_t kRunNext = UINT32_MAX;
  PeerConnections& connections_;
  Planning& planning_;
  const Processor& processor_;
  LaneSet lanes_;
  CallHistory history_;
  Cancellations cancellations_;
  Callbacks callbacks_;
  Trace trace_;
  bool stopped_ = false;
  bool cut_short_ = false;
  uint32_t idle_turns_ = 0;
};

}  // namespace weft::collective
