// SPDX-License-Identifier: BSD-3-Clause
// Failed lanes. A link has active lanes, which make up its rate, and redundant lanes, which replace
// failed active ones. A link without lanes is removed, and routes avoid it. Cuts get the remaining
// capacity, each affected chip gets a cut of its own, and dimensions get the rate of their slowest
// chip; bounds, routes and schedules follow from these.
#pragma once

#include <string>
#include <vector>

#include "lib/collective/model/topology.hpp"
#include "weft/result.hpp"

namespace weft::collective {

struct DeadLanes {
  static constexpr uint32_t kAll = UINT32_MAX;
  std::string medium;
  uint32_t chip = 0;
  uint32_t peer = kAll;   // the chip at the other end; kAll: every link of this medium
  uint32_t lanes = kAll;  // of the link, in each direction
};

// "backplane:5:20", "x:5-6:all". Errors: invalid_argument.
Result<DeadLanes> parse_dead_lanes(const std::string& text);

// Errors: invalid_argument (no such link, unknown number of lanes, a chip becomes unreachable).
Result<void> remove_dead_lanes(Topology& topology, const std::vector<DeadLanes>& dead);

}  // namespace weft::collective
