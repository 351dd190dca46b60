// SPDX-License-Identifier: BSD-3-Clause
// What is true of an engine between two calls. Debug, sanitizer and fuzz builds only: in a release
// build these functions check nothing.
#pragma once

namespace weft::srd {

class Engine;
struct Context;
struct Peer;

// The state of both streams of one peer: una <= psn <= next, list membership, sums of packets,
// bytes, messages; window, order, acknowledgement and timer.
void check_invariants(Context& ctx, Peer& peer) noexcept;

// All peers, and what they share: credit, RNR schedule, assemblies, slots of queue pairs, aliases,
// numbers of flights and of unvalidated peers. The cost grows with all of these.
void check_invariants(Engine& engine) noexcept;

}  // namespace weft::srd
