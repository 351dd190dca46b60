// SPDX-License-Identifier: BSD-3-Clause
// How posted work ends, whatever service carried it: completions of requests and of receives, and
// the way into ERR.
#pragma once

#include "lib/roce/state/queue_pair.hpp"
#include "lib/wire/parse.hpp"

namespace weft::roce {

class Engine;

// Completes the request `entry` with success or `status`: most successes are not asked for.
void deliver_request(Engine& engine, QueuePair& qp, const SendEntry& entry, Status status,
                     uint16_t syndrome) noexcept;
inline void complete_request(Engine& engine, QueuePair& qp, const SendEntry& entry, Status status,
                             uint16_t syndrome) noexcept {
  if (status == Status::success && !entry.signaled) return;
  deliver_request(engine, qp, entry, status, syndrome);
}
// Completes the oldest receive. `packet`: the last of the message that it got, if it got one.
void complete_receive(Engine& engine, QueuePair& qp, Status status, uint32_t bytes,
                      const wire::Packet* packet) noexcept;

// The oldest request fails with `status`; the queue pair goes to ERR and flushes.
void fail_request(Engine& engine, QueuePair& qp, Status status, uint16_t syndrome) noexcept;
// Moves to ERR and completes everything that is posted. //= roce:C-STATE-61
// `send` lets the answers to requests that were executed leave all the same.
enum class Replies : uint8_t { drop, send };
void enter_error(Engine& engine, QueuePair& qp, Replies replies = Replies::drop) noexcept;
void drop_replies(QueuePair& qp) noexcept;

}  // namespace weft::roce
