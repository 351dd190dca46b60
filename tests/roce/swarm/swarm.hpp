// SPDX-License-Identifier: BSD-3-Clause
// The swarm: one seed is one random world with random faults under random work, checked all the
// time by a model (swarm_peer.hpp). First safety: nothing wrong ever happens, whatever the network
// does. Then liveness: the faults stop, and all work that was posted must complete.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "providers/port/middleware/fault_lane.hpp"
#include "tests/roce/swarm/swarm_peer.hpp"

namespace weft::test {

// What happens to links and ports, besides the faults of single frames: for some time a station is
// not reached, long frames of one are lost, one's port takes nothing.
enum class LinkFault : uint8_t { link_down, mtu_shrink, port_full, end_ };
inline constexpr size_t kLinkFaultEnd = static_cast<size_t>(LinkFault::end_);
inline constexpr std::array<std::string_view, kLinkFaultEnd> kLinkFaultNames = {
    "link_down", "mtu_shrink", "port_full"};

struct SwarmResult {
  std::string violation;  // empty: all is well
  uint64_t packets = 0;   // that arrived somewhere
  uint64_t hash = 0;      // of all arrivals
  Instant end;            // virtual time
  Traffic traffic;
  std::array<uint64_t, middleware::kFaultEnd> faults{};
  std::array<uint64_t, kLinkFaultEnd> link_faults{};      // frames lost, or calls refused
  std::array<uint64_t, transport::kCountEnd> counters{};  // of all engines
};

SwarmResult run_swarm(uint64_t seed, bool hashed = true);

// The names of those that never happened in a run, "" if all did: a swarm without them finds less
// than it says. `counts` are those of `names`; `not_drawn` are not among its faults.
template <size_t N>
std::string not_fired(const std::array<uint64_t, N>& counts,
                      const std::array<std::string_view, N>& names,
                      std::initializer_list<std::string_view> not_drawn = {}) {
  std::string missing;
  for (size_t i = 0; i < N; ++i)
    if (counts[i] == 0 &&
        std::find(not_drawn.begin(), not_drawn.end(), names[i]) == not_drawn.end())
      missing += (missing.empty() ? "" : ", ") + std::string(names[i]);
  return missing;
}

// Of a run of the RoCE swarm. An overflow is a shortage of the fault port, and no fault; the links
// of the swarm have rates of their own (tests/verbs/verbs_device_faults_test.cpp has fault_rate).
inline std::string not_fired(const SwarmResult& sums) {
  const std::string faults =
      not_fired(sums.faults, middleware::kFaultNames, {"fault_overflow", "fault_rate"});
  const std::string links = not_fired(sums.link_faults, kLinkFaultNames);
  return faults + (faults.empty() || links.empty() ? "" : ", ") + links;
}

}  // namespace weft::test
