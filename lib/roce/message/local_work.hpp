// SPDX-License-Identifier: BSD-3-Clause
// Requests that send nothing: binding a memory window (bind_window) and invalidating a local key.
// Each is executed once, when the send cursor reaches it, and completes in order behind what was
// posted before (IBTA 10.8.3.3). It uses no PSN, so a rewind passes over it.
#pragma once

#include "lib/memory/key_table.hpp"
#include "lib/roce/state/queue_pair.hpp"

namespace weft::roce {

class EngineState;

// Why the request is invalid, or nullptr.
const char* invalid_local_reason(const memory::KeyTable& keys, const SendRequest& request) noexcept;
// Stores the binding in its entry, which was appended, and chooses the new key of the window.
void store_binding(memory::KeyTable& keys, const SendRequest& request, SendEntry& entry) noexcept;

// Executes the entry at the cursor, unless it was executed, and advances the cursor. False: it
// failed.
bool execute_local(EngineState& engine, QueuePair& qp) noexcept;
// Completes the oldest entries of the send queue that are executed local work.
void complete_executed_local(EngineState& engine, QueuePair& qp) noexcept;
inline void complete_local(EngineState& engine, QueuePair& qp) noexcept {
  if (!qp.sq.empty() && qp.sq[qp.sq.head()].done) complete_executed_local(engine, qp);
}
// The status of an entry that failed with a local error.
Status local_failure(const SendEntry& entry) noexcept;

}  // namespace weft::roce
