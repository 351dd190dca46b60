// SPDX-License-Identifier: BSD-3-Clause
// See shared_receives.hpp.
#include "lib/roce/message/shared_receives.hpp"

#include <algorithm>
#include <utility>

#include "lib/roce/state/engine_state.hpp"
#include "lib/transport/verbs_common.hpp"

namespace weft::roce {

PostStatus append_receives(WorkRing<RecvEntry>& ring, std::span<const RecvRequest> requests,
                           uint64_t max_message) noexcept {
  PostStatus status;
  for (const RecvRequest& r : requests) {
    uint32_t length = 0;
    if (const char* reason = invalid_reason(r, {ring.max_sge(), 0, max_message}, length))
      return {Code::invalid_argument, status.accepted, reason};
    if (ring.full())
      return {Code::queue_full, status.accepted,
              "the receive queue is full: poll completions, or raise max_recv_wr"};
    RecvEntry& entry = ring.tail_entry();
    entry.id = r.id;
    entry.length = length;
    entry.sge_count = static_cast<uint32_t>(r.sges.size());
    std::copy(r.sges.begin(), r.sges.end(), ring.sges(ring.tail()));
    ring.push();
    ++status.accepted;
  }
  return status;
}

namespace {
// Moves the oldest entry of one ring to the end of another.
void move_receive(WorkRing<RecvEntry>& from, WorkRing<RecvEntry>& to) noexcept {
  WEFT_DCHECK(!from.empty() && !to.full());
  const uint32_t head = from.head();
  WEFT_DCHECK(from[head].sge_count <= to.max_sge());
  std::copy_n(from.sges(head), from[head].sge_count, to.sges(to.tail()));
  to.tail_entry() = from[head];
  to.push();
  from.pop();
}
}  // namespace

bool resize_receives(WorkRing<RecvEntry>& ring, uint32_t capacity) {
  if (ring.size() > capacity) return false;
  WorkRing<RecvEntry> resized;
  resized.create(capacity, ring.max_sge(), 0);  // may throw: nothing has changed
  while (!ring.empty()) move_receive(ring, resized);
  ring = std::move(resized);
  ring.check_invariants();
  return true;
}

void return_to_srq(QueuePair& qp) noexcept {
  if (!qp.rq.empty() && !qp.shared->ring.full()) move_receive(qp.rq, qp.shared->ring);
}

//= roce:C-OPS-92
bool take_from_srq(EngineState& engine, QueuePair& qp) noexcept {
  WEFT_DCHECK(qp.rq.empty() && qp.shared != nullptr);
  SharedReceives& srq = *qp.shared;
  if (srq.ring.empty()) return false;
  move_receive(srq.ring, qp.rq);
  if (srq.ring.size() >= srq.limit) return true;
  srq.limit = 0;  // raised once
  engine.raise({.type = EventType::srq_limit_reached, .shared_queue = srq.number});
  return true;
}

//= roce:C-OPS-93
bool select_srq(EngineState& engine, QueuePair& qp, uint32_t number) noexcept {
  WEFT_DCHECK(qp.type == QpType::xrc_target);
  if (qp.shared != nullptr && qp.shared->number == number) return true;
  if (qp.res.message != Responder::Message::none) return false;
  SharedReceives* const srq = engine.find_srq(number);
  if (srq == nullptr || srq->xrc_domain != qp.xrc_domain) return false;
  if (qp.shared != nullptr) return_to_srq(qp);
  detach_srq(qp);
  qp.shared = srq;
  qp.domain = srq->domain;
  qp.recv_cq = srq->cq;
  return true;
}

void detach_srq(QueuePair& qp) noexcept {
  qp.rq.clear();
  qp.shared = nullptr;
  qp.recv_cq = nullptr;
  qp.domain = 0;
}

}  // namespace weft::roce
