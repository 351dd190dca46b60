// SPDX-License-Identifier: BSD-3-Clause
// How posted work ends, for every service: completions of requests and receives, and the transition
// to ERR.
#pragma once

#include "lib/roce/state/queue_pair.hpp"
#include "lib/wire/parse.hpp"

namespace weft::roce {

class EngineState;

// Completes the request `entry` with success or `status`; most successes are unsignaled.
void deliver_request(EngineState& engine, QueuePair& qp, const SendEntry& entry, Status status,
                     uint16_t syndrome) noexcept;
inline void complete_request(EngineState& engine, QueuePair& qp, const SendEntry& entry,
                             Status status, uint16_t syndrome) noexcept {
  if (status == Status::success && !entry.signaled) return;
  deliver_request(engine, qp, entry, status, syndrome);
}
// Completes the oldest receive. `packet`: the last of its message, or nullptr.
void complete_receive(EngineState& engine, QueuePair& qp, Status status, uint32_t bytes,
                      const wire::Packet* packet) noexcept;

// The oldest request fails with `status`; the queue pair goes to ERR and flushes.
void fail_request(EngineState& engine, QueuePair& qp, Status status, uint16_t syndrome) noexcept;
// The oldest receive fails with a local protection error; the queue pair goes to ERR. UC, UD.
void fail_receive(EngineState& engine, QueuePair& qp) noexcept;
// Goes to ERR and flushes everything that is posted. //= roce:C-STATE-61
// `send` keeps the queued responses of requests that were executed.
enum class Replies : uint8_t { drop, send };
void enter_error(EngineState& engine, QueuePair& qp, Replies replies = Replies::drop) noexcept;
void drop_replies(QueuePair& qp) noexcept;

}  // namespace weft::roce
