// SPDX-License-Identifier: BSD-3-Clause
// Lanes that are dead. A link is made of active lanes, which make up its rate, and of redundant
// ones, which carry nothing until active ones die. A link without lanes is gone, and routes go
// around it. Cuts get the capacity that is left, each chip that lost some a cut of its own, and
// dimensions the rate of their slowest chip: bounds, routes and schedules follow.
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
  uint32_t peer = kAll;   // the chip at the other end; kAll: on every such link of the chip
  uint32_t lanes = kAll;  // of the link, in each direction
};

// "backplane:5:20", "x:5-6:all". Errors: invalid_argument.
Result<DeadLanes> parse_dead_lanes(const std::string& text);

// Errors: invalid_argument (no such link, no word on its lanes, a chip that is cut off).
Result<void> take_dead_lanes(Topology& topology, const std::vector<DeadLanes>& dead);

}  // namespace weft::collective
