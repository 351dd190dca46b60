// SPDX-License-Identifier: BSD-3-Clause
// See shared_receives.hpp.
#include "lib/roce/message/shared_receives.hpp"

#include <algorithm>

#include "lib/roce/engine.hpp"

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
// The oldest entry of one ring becomes the newest of another.
void move_receive(WorkRing<RecvEntry>& from, WorkRing<RecvEntry>& to) noexcept {
  const uint32_t head = from.head();
  std::copy_n(from.sges(head), from[head].sge_count, to.sges(to.tail()));
  to.tail_entry() = from[head];
  to.push();
  from.pop();
}
}  // namespace

void return_receive(QueuePair& qp) noexcept {
  if (!qp.rq.empty() && !qp.shared->ring.full()) move_receive(qp.rq, qp.shared->ring);
}

//= roce:C-OPS-92
bool borrow_receive(Engine& engine, QueuePair& qp) noexcept {
  SharedReceives& pool = *qp.shared;
  if (pool.ring.empty()) return false;
  move_receive(pool.ring, qp.rq);
  if (pool.ring.size() >= pool.limit) return true;
  pool.limit = 0;  // once
  engine.raise({.type = EventType::srq_limit_reached, .shared_queue = pool.number});
  return true;
}

//= roce:C-OPS-93
bool adopt_pool(Engine& engine, QueuePair& qp, uint32_t number) noexcept {
  if (qp.shared != nullptr && qp.shared->number == number) return true;
  if (qp.res.message != Responder::Message::none) return false;
  SharedReceives* const pool = engine.find_pool(number);
  if (pool == nullptr || pool->xrc_domain != qp.xrc_domain) return false;
  if (qp.shared != nullptr) return_receive(qp);
  leave_pool(qp);
  qp.shared = pool;
  qp.domain = pool->domain;
  qp.recv_cq = pool->cq;
  return true;
}

void leave_pool(QueuePair& qp) noexcept {
  qp.rq.clear();
  qp.shared = nullptr;
  qp.recv_cq = nullptr;
  qp.domain = 0;
}

}  // namespace weft::roce
