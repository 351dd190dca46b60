// SPDX-License-Identifier: BSD-3-Clause
// Ranks that wait in exchanges to receive from each other in a cycle (edge chasing: Chandy, Misra,
// Haas, "Distributed deadlock detection", 1983, for processes that need all they wait for). A rank
// that learns that a peer waits for it, while it waits for others itself, forwards the chain
// of waiting ranks to them. A chain that returns to its first rank is a cycle. //= threat:A24
//
// Only a rank that has nothing more to send to the one before it extends the chain, and only if
// that one had consumed everything sent to it: then the one before still waits, or has withdrawn
// its exchange. The first rank, which knows whether it still waits, reports the cycle. A cycle is
// reported wrongly only if a rank in between has withdrawn its exchange and has sent since.
#pragma once

#include <map>

#include "lib/base/check.hpp"
#include "lib/collective/faults/failure.hpp"
#include "lib/collective/run/lane.hpp"

namespace weft::collective {

// The ranks of a circular_wait message.
std::vector<uint32_t> chain_of(const ControlMessage& message);

class CircularWaitDetector {
 public:
  // `ranks` in all, of which this one is `rank`.
  CircularWaitDetector(uint32_t rank, uint32_t ranks) : rank_(rank), ranks_(ranks) {
    WEFT_DCHECK(rank < ranks);
  }

  // Each rank of `chain` waits for the next one; the last, at the other end of `link`, waits for
  // this rank and has consumed `consumed` pieces. Passes the chain on, each at most every 50 ms, or
  // returns a cycle.
  std::optional<FailureReport> follow(const Lane& lane, const Link& link, uint64_t consumed,
                                      std::vector<uint32_t> chain, Instant now);

 private:
  uint32_t rank_, ranks_;
  std::map<uint32_t, Instant> followed_;  // by the first rank of the chain: when last passed on
};

}  // namespace weft::collective
