// SPDX-License-Identifier: BSD-3-Clause
// Shared receive queues (SRQ). A queue pair with one takes a receive from it when a message begins,
// into its own ring of one entry. Each request to an XRC target names an SRQ, whose receives,
// completion queue and protection domain then are those of the queue pair.
#pragma once

#include <span>

#include "lib/roce/state/queue_pair.hpp"
#include "lib/transport/shared_receives.hpp"

namespace weft::roce {

class EngineState;

// Appends receives to a ring, up to the first that is invalid or has no room.
PostStatus append_receives(WorkRing<RecvEntry>& ring, std::span<const RecvRequest> requests,
                           uint64_t max_message) noexcept;

// Changes the capacity of a ring and keeps its receives. False, and nothing has changed: it holds
// more than that.
bool resize_receives(WorkRing<RecvEntry>& ring, uint32_t capacity);

// Moves the oldest receive of the SRQ to qp.rq, which is empty. False: there is none.
bool take_from_srq(EngineState& engine, QueuePair& qp) noexcept;

// Moves the receive in qp.rq back to the SRQ, if there is room: `qp` ends without completing it.
void return_to_srq(QueuePair& qp) noexcept;

// XRC: attaches the SRQ that a request names to `qp`. False: the domain has none of that number, or
// the message in progress uses another one.
bool select_srq(EngineState& engine, QueuePair& qp, uint32_t number) noexcept;

// XRC: detaches the SRQ of `qp`; a receive that qp.rq holds is lost.
void detach_srq(QueuePair& qp) noexcept;

// True if there is a receive for a message that begins; takes one from the SRQ if need be.
inline bool find_receive(EngineState& engine, QueuePair& qp) noexcept {
  return !qp.rq.empty() || (qp.shared != nullptr && take_from_srq(engine, qp));
}

}  // namespace weft::roce
