// SPDX-License-Identifier: BSD-3-Clause
// Cancellation of single calls, after which the communicator continues. The rank that cancels
// sends a notice to all others, and every rank that first learns of it from a notice sends one to
// all others, too: "this call is canceled, and I send no more pieces of it". Notices keep their
// place behind the pieces sent before them, so when all have arrived no piece of the call can
// arrive any more; until then they are dropped. Model: tests/model/collective_cancel.pml.
#pragma once

#include <map>

#include "lib/collective/run/lane.hpp"

namespace weft::collective {

struct Cancellation {
  Call call;
  uint32_t by = 0;  // rank
  std::string reason;
  std::vector<bool> sent, received;  // notices, by rank
};

Error error_of(const Cancellation& cancellation);

class Cancellations {
 public:
  bool empty() const { return by_sequence_.empty(); }
  bool contains(uint64_t sequence) const { return by_sequence_.contains(sequence); }
  const Cancellation* find(uint64_t sequence) const;  // null: not canceled

  // The call is not in the table yet.
  const Cancellation& add(const Call& call, uint32_t by, std::string_view reason, size_t ranks);
  // Sends the notices that have not been sent, and drops entries that are complete: all notices
  // were exchanged, and no piece of the call can lie behind a piece of an earlier call. `last`: the
  // last call that this rank has issued.
  void send_notices(const LaneSet& lanes, uint64_t last);
  // False: the call is not in the table (complete, or unknown).
  bool on_notice(uint64_t sequence, uint32_t peer);

  // Whether all peers have learned of calls canceled before this task. One that has not would take
  // the first piece of this task for a piece of the canceled call.
  bool allow_start(const Task& task, const LaneSet& lanes) const;
  bool all_sent(const LaneSet& lanes) const;
  // Whether a canceled task's memory is neither read by its own puts nor written by peers that it
  // was advertised to.
  bool drained(const Task& task, const Lane& lane) const;
  // Consumes the pieces of canceled calls at the head of the link.
  void drop_pieces(Link& link) const;

  // Fails a DCHECK if an entry contradicts its key or the number of ranks.
  void check_invariants(size_t ranks) const;

 private:
  std::map<uint64_t, Cancellation> by_sequence_;
};

// Ends what the task does; its memory is released later (drained()). True if the task has ended at
// once and was removed from its lane: it waited in the queue, and no part of its call has run.
bool cancel_task(Lane& lane, const TaskPtr& task, const Cancellation& cancellation, Instant now);

}  // namespace weft::collective
