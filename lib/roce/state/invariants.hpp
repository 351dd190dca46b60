// SPDX-License-Identifier: BSD-3-Clause
// The whole invariant of a queue pair's state machines, asserted. Builds with dense checks
// (lib/base/check.hpp); in others the calls are empty. The invariants hold between two calls of the
// engine, not within one.
#pragma once

#include "lib/roce/state/early_packets.hpp"
#include "lib/roce/state/queue_pair.hpp"

namespace weft::roce {

#ifdef NDEBUG
inline void check_requester(const QueuePair&) noexcept {}
inline void check_responder(const QueuePair&, const EarlyPackets&) noexcept {}
#else
// PSNs and send cursor, entries of the send queue, bytes in flight, RD-atomic ring, retry budgets
// and timers.
void check_requester(const QueuePair& qp) noexcept;
// Expected PSN, message in progress, acknowledgement, sequence gap and early packets, RD-atomic
// resources and queued responses.
void check_responder(const QueuePair& qp, const EarlyPackets& early) noexcept;
#endif

inline void check_queue_pair(const QueuePair& qp, const EarlyPackets& early) noexcept {
  check_requester(qp);
  check_responder(qp, early);
}

}  // namespace weft::roce
