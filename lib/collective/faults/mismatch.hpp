// SPDX-License-Identifier: BSD-3-Clause
// Ranks that call different things: what a peer's piece, probe or notice says about its call is
// compared with what this rank called.
#pragma once

#include "lib/collective/faults/cancellations.hpp"
#include "lib/collective/faults/failure.hpp"
#include "lib/collective/run/call_history.hpp"

namespace weft::collective {

using MaybeFailure = std::optional<FailureReport>;

// What this rank has called.
struct LocalCalls {
  uint32_t rank = 0;
  const CallHistory& history;
  const Cancellations& cancellations;
};

// `ours`: the current call, unless this rank has called something at the same number as `theirs`.
FailureReport report_mismatch(const LocalCalls& local, uint32_t peer, const Call& theirs,
                              const Call& ours);

// The peer is at `theirs`, and this rank called something else at that number.
MaybeFailure check_call(const LocalCalls& local, uint32_t peer, const Call& theirs);

// A piece has arrived: as check_call(), and its call may not be finished here, where the peer sent
// more than was expected.
MaybeFailure check_piece(const LocalCalls& local, const Lane& lane, uint32_t peer,
                         const Call& theirs);

// The peer waits for this rank in a collective. If this rank waits for the peer in an exchange, the
// peer has sent all that it had before, so neither will ever continue.
MaybeFailure check_probe(const LocalCalls& local, const Lane& lane, uint32_t peer,
                         const Call& theirs);
// Whether this rank has nothing left to send to the peer, which waits in this collective: then it
// answers the peer's probe with `finished`.
bool has_finished_sending(const LocalCalls& local, const Lane& lane, uint32_t peer,
                          const Call& theirs);
// The peer has sent all that it has in this call, and it has arrived.
MaybeFailure check_finished(const LocalCalls& local, const Lane& lane, uint32_t peer,
                            const Call& theirs);

}  // namespace weft::collective
