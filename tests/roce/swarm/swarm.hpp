// SPDX-License-Identifier: BSD-3-Clause
// The swarm: one seed is one random world with random faults under random work, checked all the
// time by a model (swarm_peer.hpp). First safety: nothing wrong ever happens, whatever the network
// does. Then liveness: the faults stop, and all work that was posted must complete.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "providers/port/middleware/fault_lane.hpp"
#include "tests/roce/swarm/swarm_peer.hpp"

namespace weft::test {

struct SwarmResult {
  std::string violation;  // empty: all is well
  uint64_t packets = 0;   // that arrived somewhere
  uint64_t hash = 0;      // of all arrivals
  Instant end;            // virtual time
  Traffic traffic;
  std::array<uint64_t, middleware::kFaultEnd> faults{};
  std::array<uint64_t, transport::kCountEnd> counters{};  // of all engines
};

SwarmResult run_swarm(uint64_t seed, bool hashed = true);

}  // namespace weft::test
