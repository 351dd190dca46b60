// SPDX-License-Identifier: BSD-3-Clause
// The table of canceled calls and its notices.
#include "lib/collective/faults/cancellations.hpp"

#include <algorithm>
#include <cstring>

namespace weft::collective {

Error error_of(const Cancellation& cancellation) {
  std::string text = "CANCELED: " + describe(cancellation.call) + " was canceled by rank " +
                     std::to_string(cancellation.by);
  if (!cancellation.reason.empty()) text += ": " + cancellation.reason;
  return {Code::canceled, text};
}

const Cancellation* Cancellations::find(uint64_t sequence) const {
  const auto found = by_sequence_.find(sequence);
  return found == by_sequence_.end() ? nullptr : &found->second;
}

const Cancellation& Cancellations::add(const Call& call, uint32_t by, std::string_view reason,
                                       size_t ranks) {
  WEFT_DCHECK(!contains(call.sequence));
  return by_sequence_[call.sequence] = {call, by, std::string(reason), std::vector<bool>(ranks),
                                        std::vector<bool>(ranks)};
}

bool Cancellations::on_notice(uint64_t sequence, uint32_t peer) {
  const auto found = by_sequence_.find(sequence);
  if (found == by_sequence_.end()) return false;
  WEFT_DCHECK(peer < found->second.received.size());
  found->second.received[peer] = true;
  return true;
}

void Cancellations::send_notices(const LaneSet& lanes, uint64_t last) {
  for (auto next = by_sequence_.begin(); next != by_sequence_.end();) {
    Cancellation& cancellation = next->second;
    ControlMessage notice{.kind = ControlKind::cancel, .rank = cancellation.by};
    notice.call = cancellation.call;
    std::memcpy(notice.text, cancellation.reason.data(),
                std::min(cancellation.reason.size(), sizeof notice.text));
    const Lane& lane = lanes.of(cancellation.call);
    bool complete =
        last >= next->first && (lane.tasks.empty() || lane.tasks.front()->preceding >= next->first);
    for (Link* const link : lane.links) {
      if (link == nullptr) continue;
      const uint32_t peer = link->peer();
      WEFT_DCHECK(peer < cancellation.sent.size());
      if (!cancellation.sent[peer]) cancellation.sent[peer] = link->send_control(notice);
      complete &= link->disconnected || (cancellation.sent[peer] && cancellation.received[peer]);
    }
    next = complete ? by_sequence_.erase(next) : std::next(next);
  }
}

bool Cancellations::allow_start(const Task& task, const LaneSet& lanes) const {
  WEFT_DCHECK(!task.done && !task.error);
  for (const auto& [sequence, cancellation] : by_sequence_) {
    if (sequence > task.preceding) break;
    for (const Link* const link : lanes.of(cancellation.call).links) {
      if (link == nullptr || link->disconnected) continue;
      if (!cancellation.sent[link->peer()] || !link->pieces_follow_messages()) return false;
    }
  }
  return true;
}

bool Cancellations::all_sent(const LaneSet& lanes) const {
  for (const auto& [sequence, cancellation] : by_sequence_)
    for (const Link* const link : lanes.of(cancellation.call).links)
      if (link != nullptr && !link->disconnected && !cancellation.sent[link->peer()]) return false;
  return true;
}

bool Cancellations::drained(const Task& task, const Lane& lane) const {
  WEFT_DCHECK(task.error && !task.done);
  const Cancellation* const cancellation = find(task.call.sequence);
  for (const Link* const link : lane.links) {
    if (link == nullptr) continue;
    if (link->reads_caller_memory()) return false;
    const bool advertised = std::find(task.advertised_ranks.begin(), task.advertised_ranks.end(),
                                      link->peer()) != task.advertised_ranks.end();
    const bool may_write = cancellation != nullptr && !cancellation->received[link->peer()];
    if (advertised && !link->disconnected && may_write) return false;
  }
  return true;
}

void Cancellations::drop_pieces(Link& link) const {
  for (const PieceHeader* piece = link.head(); piece != nullptr; piece = link.head()) {
    if (!contains(piece->call.sequence)) return;
    link.consume();
  }
}

void Cancellations::check_invariants(size_t ranks) const {
  for (const auto& [sequence, cancellation] : by_sequence_) {
    WEFT_DCHECK(sequence == cancellation.call.sequence);
    WEFT_DCHECK(cancellation.sent.size() == ranks && cancellation.received.size() == ranks);
  }
}

bool cancel_task(Lane& lane, const TaskPtr& task, const Cancellation& cancellation, Instant now) {
  WEFT_DCHECK(!task->done && !lane.tasks.empty());
  WEFT_DCHECK(!task->error && task->call.sequence == cancellation.call.sequence);
  task->error = error_of(cancellation);
  task->deadline = now + task->limit;  // of the draining
  task->canceled_by = cancellation.by;
  task->cancel_reason = cancellation.reason;
  if (task == lane.tasks.front()) {
    task->advertised_ranks = lane.executor.advertised_ranks();
    lane.executor.stop();
    return false;
  }
  for (const TaskPtr& part : task->parts)
    if (!part->done) return false;
  lane.remove(task);
  return true;
}

}  // namespace weft::collective
