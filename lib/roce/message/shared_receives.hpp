// SPDX-License-Identifier: BSD-3-Clause
// Receives that many queue pairs share. A queue pair that has such a pool takes one receive out of
// it when a message begins, into its own ring of one, and goes on as any other. Each request to an
// XRC target names such a pool, which then stands for the queue pair's own: receives, completion
// queue and protection domain.
#pragma once

#include <span>

#include "lib/roce/state/queue_pair.hpp"
#include "lib/transport/shared_receives.hpp"

namespace weft::roce {

class Engine;

// Appends receives to a ring as far as they are good and there is room.
PostStatus append_receives(WorkRing<RecvEntry>& ring, std::span<const RecvRequest> requests,
                           uint64_t max_message) noexcept;

// Takes the oldest receive of the pool into qp.rq, which is empty. False: there is none.
bool borrow_receive(Engine& engine, QueuePair& qp) noexcept;

// Gives what qp.rq holds back to the pool, if there is room: `qp` goes away without completing it.
void return_receive(QueuePair& qp) noexcept;

// XRC: the pool that a request names becomes that of `qp`. False: the domain has none of that
// number, or the message in flight is for another one.
bool adopt_pool(Engine& engine, QueuePair& qp, uint32_t number) noexcept;

// `qp` has no pool any more; what it holds of it is lost.
void leave_pool(QueuePair& qp) noexcept;

// Is there a receive for a message that begins?
inline bool find_receive(Engine& engine, QueuePair& qp) noexcept {
  return !qp.rq.empty() || (qp.shared != nullptr && borrow_receive(engine, qp));
}

}  // namespace weft::roce
