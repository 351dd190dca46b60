// SPDX-License-Identifier: BSD-3-Clause
// A team is what a Communicator consists of: connections to all peers, the runner of its tasks, the
// memory that is registered for them, and failure handling. It polls completions, passes them to
// links and executors, and applies the first failure that any part returns: all tasks end, here
// and, through an abort message, on every other rank.
#pragma once

#include <array>

#include "lib/collective/faults/circular_wait.hpp"
#include "lib/collective/team/task_runner.hpp"

namespace weft::collective {

// Where the ranks of a group come from; empty for a group that was not made from another one.
struct Lineage {
  std::vector<uint32_t> members;  // by rank: the rank in the group that this one was made from
  std::vector<uint32_t> origins;  // and in the first group
};
Lineage descend(const Lineage& parent, std::vector<uint32_t> members);

class Team {
 public:
  Team(PeerConnections connections, const CommunicatorOptions& options);
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  uint64_t serial() const { return serial_; }  // unique in this process
  uint32_t rank() const { return connections_.rank; }
  uint32_t ranks() const { return connections_.ranks; }
  const CommunicatorOptions& options() const { return options_; }
  PeerConnections& connections() { return connections_; }
  const PeerConnections& connections() const { return connections_; }
  Planning& planning() { return planning_; }
  Selector* selector() const { return planning_.selector.get(); }
  RegistrationCache& memory() { return memory_; }
  const RegistrationCache& memory() const { return memory_; }
  TaskRunner& runner() { return runner_; }
  const TaskRunner& runner() const { return runner_; }
  Processor& processor() { return processor_; }
  Lineage& lineage() { return lineage_; }
  const Lineage& lineage() const { return lineage_; }
  const std::optional<Failure>& failure() const { return failure_; }
  // Ranks that the running tasks wait for, or waited for when the team failed.
  std::vector<uint32_t> awaited_ranks() const;
  // Of the next collective to be issued.
  uint64_t next_sequence() const { return runner_.history().next(); }

  void issue(const TaskPtr& task);
  void progress() noexcept;
  // Cancels one call, on all ranks; an exchange on this one, if nothing of it was transferred.
  // Errors: bad_state: it was.
  Result<void> cancel(const Task& task, std::string_view reason);
  // Ends all tasks and announces it to the peers. Later failures are ignored.
  void fail(const FailureReport& report);
  // True if there is nothing to do; the completion queue's descriptor then becomes readable when
  // there is.
  bool arm() noexcept;

 private:
  static uint64_t next_serial();
  void apply(const MaybeFailure& failure);
  void on_completions(std::span<const Completion> completions);
  void on_message(Link& link, const ControlMessage& message);
  void on_probe(Link& link, const ControlMessage& probe);
  void on_circular_wait(const Link& link, uint64_t consumed, std::vector<uint32_t> chain);
  void watch(Lane& lane, Instant now);
  void check_liveness();
  void end_failed_tasks();

  const uint64_t serial_ = next_serial();
  PeerConnections connections_;
  CommunicatorOptions options_;
  Lineage lineage_;
  Planning planning_;
  RegistrationCache memory_;
  Processor processor_;
  TaskRunner runner_;
  CircularWaitDetector circular_waits_;
  std::array<Completion, 32> completions_;  // of this turn
  std::optional<Failure> failure_;
  bool failure_recorded_ = false;  // in the trace, by the calls in flight or the first one after
  std::vector<uint32_t> awaited_at_failure_;
  Teardown teardown_;
};

// Fails a DCHECK if the state of links, lanes, tasks or cancellations is inconsistent.
void check_invariants(const Team& team);

}  // namespace weft::collective
