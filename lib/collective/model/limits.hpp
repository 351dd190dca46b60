// SPDX-License-Identifier: BSD-3-Clause
// How fast a network can carry an operation at best, computed exactly from its least cuts: no
// schedule is faster. What a cut of chips S lets out is the maximum flow from S to the other chips,
// so switches are on the side where they help.
#pragma once

#include <vector>

#include "lib/collective/model/topology.hpp"

namespace weft::collective {

// The rate, and what limits it: the cut with these chips on its sending side, or a partition.
struct Limit {
  double bytes_per_s = 0;
  std::vector<bool> inside;  // of a cut
  uint32_t groups = 2;       // of a partition
};

// Networks of more chips are not analysed: it takes a maximum flow for each chip.
inline constexpr uint32_t kMaxSynthesisChips = 256;

// Every chip sends a block to all others: the rate of one block. It is the least, over all cuts, of
// the capacity out of the cut over the chips inside (two or more chips).
Limit gather_limit(const Topology& topology);
// One chip sends to all others: the least maximum flow to another chip.
Limit broadcast_limit(const Topology& topology, uint32_t root);
// Each chip has a vector, and all get the sum: an upper bound of the rate of one vector. Between
// groups of chips 2 (groups - 1) vectors must cross; what all groups can send is divided by that.
// The least over some partitions into groups, not over all.
Limit all_reduce_limit(const Topology& topology);

// The same network with every link turned round: what scatters there gathers here.
Topology reversed(const Topology& topology);

}  // namespace weft::collective
