// SPDX-License-Identifier: BSD-3-Clause
// Packs spanning trees into a network so that its fullest link carries as little as possible: a
// search that takes one rank of one tree after another from its parent, and gives it the parent
// whose links cost least. The cost of a link is a power of its load. The power grows in the course
// of the search, until only the fullest links count, and each power begins with costs that are
// noisy, to leave local minima.
#pragma once

#include <vector>

#include "lib/collective/model/topology.hpp"
#include "lib/collective/plan/forest.hpp"

namespace weft::collective {

struct PackingTask {
  // How each tree begins. `one_child`: the root sends to one chip only, the one whose links are
  // least loaded; from there the data go to the hub, whence they spread. Else they spread from the
  // root.
  struct Seed {
    uint32_t root = 0;
    uint32_t hub = 0;  // the root: that chip is the hub
    bool one_child = false;
  };
  std::vector<Seed> trees;
  bool back = false;   // data flows up the trees, too, and not only down
  double optimum = 1;  // bytes/s that a tree would carry if all were packed perfectly
  uint32_t most_height = UINT32_MAX;  // no move makes a tree higher; one may begin so
  uint64_t seed = 1;                  // of the noise
};

// The hops that trees may be made of: from a chip to those that it reaches over switches only, by
// the links that routes take. `routes` must outlive them.
struct Hops {
  struct Hop {
    uint32_t from = 0;
    const Route* route = nullptr;
  };
  std::vector<std::vector<Hop>> into, out_of;  // per chip; `from` is the other chip
};
Hops hops_of(const Topology& topology, Routes& routes);

// Deterministic. Forest::load is what the fullest link carries over what it would at the optimum.
Forest pack_trees(const Topology& topology, const Hops& hops, const PackingTask& task);

}  // namespace weft::collective
