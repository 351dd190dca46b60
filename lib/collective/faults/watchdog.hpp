// SPDX-License-Identifier: BSD-3-Clause
// Supervision of a lane's running task. A task that does not advance makes its rank send keepalives
// to the ranks that it waits for (their transport acknowledges, whatever their program does) and
// probes that name the call, so that both a failed peer and a different call are detected while no
// rank has data to send.
#pragma once

#include "lib/collective/faults/failure.hpp"
#include "lib/collective/run/lane.hpp"
#include "lib/collective/run/peer_connections.hpp"

namespace weft::collective {

// Whether the running task has advanced since the last call; then resets the lane's timers.
bool has_advanced(Lane& lane, Instant now);
// Whether the liveness sockets are to be polled; then sets the next time.
bool liveness_check_due(Lane& lane, Instant now);
// Sends a keepalive or a probe to each awaited rank when due. True if the lane has waited long
// enough for advertisements and continues without them.
bool solicit_awaited_ranks(Lane& lane, Instant now);

// The first task whose limit is exceeded, also one that waits in the queue. Canceled tasks have a
// limit of their own: check_drain_deadline(). `rank`: this one.
std::optional<FailureReport> check_deadlines(Lane& lane, Instant now, uint32_t rank);
// A canceled task at the front whose memory a peer may still write.
std::optional<FailureReport> check_drain_deadline(const Lane& lane, Instant now, uint32_t rank);

// A peer that has left or exited sends nothing more, and everything that it sent has arrived: a
// task that depends on it has failed. Other links to such peers stop reading memory.
std::optional<FailureReport> check_disconnected(const PeerConnections& connections,
                                                const LaneSet& lanes);

}  // namespace weft::collective
