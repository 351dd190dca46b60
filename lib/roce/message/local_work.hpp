// SPDX-License-Identifier: BSD-3-Clause
// Work in a send queue that sends nothing: binding a memory window and revoking a key of our own.
// It is done when the cursor of the queue comes to it, once, and completes in its turn, behind what
// was posted before (IBTA 10.8.3.3). It uses no PSN, so a rewind passes over it.
#pragma once

#include "lib/memory/key_table.hpp"
#include "lib/roce/state/queue_pair.hpp"

namespace weft::roce {

class Engine;

// Why it cannot be posted, or nullptr.
const char* objection_to_local(const memory::KeyTable& keys, const SendRequest& request) noexcept;
// Keeps what is to be bound in the entry, which has been appended; the window gets its new key.
void note_binding(memory::KeyTable& keys, const SendRequest& request, SendEntry& entry) noexcept;

// Does the entry at the cursor, unless it is done, and steps over it. False: it has failed.
bool do_local(Engine& engine, QueuePair& qp) noexcept;
// Completes local work that is done and the oldest in the queue.
void complete_done(Engine& engine, QueuePair& qp) noexcept;
inline void complete_local(Engine& engine, QueuePair& qp) noexcept {
  if (!qp.sq.empty() && qp.sq[qp.sq.head()].done) complete_done(engine, qp);
}
// The status of an entry that has failed here.
Status local_failure(const SendEntry& entry) noexcept;

}  // namespace weft::roce
