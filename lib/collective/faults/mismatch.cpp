// SPDX-License-Identifier: BSD-3-Clause
// Comparison of calls.
#include "lib/collective/faults/mismatch.hpp"

namespace weft::collective {

FailureReport report_mismatch(const LocalCalls& local, uint32_t peer, const Call& theirs,
                              const Call& ours) {
  const Call* const same_number = local.history.find(theirs.sequence);
  const Call& own = same_number != nullptr ? *same_number : ours;
  const std::string them = "rank " + std::to_string(peer);
  const std::string us = "rank " + std::to_string(local.rank);
  const bool same = describe(theirs) == describe(own);
  return {.code = Code::mismatch,
          .rank = peer,
          .call = own,
          .reason =
              same ? them + " and " + us + " called " + describe(own) + " with different " +
                         (own.sequence == 0 ? "sizes" : "counts")
                   : them + " called " + describe(theirs) + ", " + us + " called " + describe(own)};
}

MaybeFailure check_call(const LocalCalls& local, uint32_t peer, const Call& theirs) {
  const Call* const ours = local.history.find(theirs.sequence);
  if (ours == nullptr || *ours == theirs) return std::nullopt;
  return report_mismatch(local, peer, theirs, *ours);
}

MaybeFailure check_piece(const LocalCalls& local, const Lane& lane, uint32_t peer,
                         const Call& theirs) {
  WEFT_DCHECK(peer != local.rank && lane.links[peer] != nullptr);
  if (local.cancellations.contains(theirs.sequence)) return std::nullopt;
  if (theirs.sequence != 0 && theirs.sequence <= lane.last_finished)
    return report_mismatch(local, peer, theirs, theirs);
  return check_call(local, peer, theirs);
}

MaybeFailure check_probe(const LocalCalls& local, const Lane& lane, uint32_t peer,
                         const Call& theirs) {
  if (!lane.executor.running() || lane.current_call().sequence != 0) return std::nullopt;
  if (local.cancellations.contains(theirs.sequence)) return std::nullopt;  // a notice is sent
  if (!lane.executor.has_receives_from(peer) || theirs.sequence <= lane.last_finished)
    return std::nullopt;
  return report_mismatch(local, peer, theirs, lane.current_call());
}

bool has_finished_sending(const LocalCalls& local, const Lane& lane, uint32_t peer,
                          const Call& theirs) {
  WEFT_DCHECK(peer != local.rank && lane.links[peer] != nullptr);
  if (theirs.sequence == 0 || theirs.sequence > local.history.last() ||
      local.cancellations.contains(theirs.sequence))
    return false;
  for (const TaskPtr& task : lane.tasks) {
    const bool runs = task == lane.tasks.front() && lane.executor.running();
    if (task->call.sequence == theirs.sequence && (!runs || lane.executor.has_sends_for(peer)))
      return false;
  }
  return true;
}

MaybeFailure check_finished(const LocalCalls& local, const Lane& lane, uint32_t peer,
                            const Call& theirs) {
  if (!lane.executor.running() || theirs.sequence == 0 || lane.current_call() != theirs)
    return std::nullopt;
  if (!lane.executor.has_receives_from(peer)) return std::nullopt;
  return report_mismatch(local, peer, theirs, theirs);
}

}  // namespace weft::collective
