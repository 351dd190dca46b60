// SPDX-License-Identifier: BSD-3-Clause
// A forest: spanning trees of the ranks, over which a collective sends its data so that all links
// of a network are used (lib/collective/model finds them, algorithm/forest.cpp sends over
// them). It is part of a Shape: the same network gives every rank the same forest.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/base/check.hpp"

namespace weft::collective {

// Each rank but the root has a parent. Data flows from parents to children (broadcast, all_gather),
// to parents (reduce, reduce_scatter), or to the root and back (all_reduce).
struct SpanningTree {
  uint32_t root = 0;
  std::vector<uint32_t> parent;  // per rank; the root's is itself
  // From the parents, by make_forest().
  std::vector<uint32_t> depth = {};                  // per rank: edges from the root
  std::vector<std::vector<uint32_t>> children = {};  // per rank, in their order
};

struct Forest {
  uint32_t ranks = 0;
  uint32_t height = 0;  // the greatest depth
  std::vector<SpanningTree>
      trees;                       // all carry equally much of their root's block, or of the vector
  std::vector<uint32_t> first_of;  // per root, ranks + 1 entries: its trees are consecutive
  uint64_t fingerprint = 0;        // of all trees: ranks compare it
  double load = 0;                 // of the fullest link, relative to the optimum: 1 is optimal

  uint32_t trees_of(uint32_t root) const {
    WEFT_DCHECK(root < ranks && first_of.size() == ranks + 1);
    return first_of[root + 1] - first_of[root];
  }
};

// Sorts the trees by root and computes all that follows from the parents.
Forest make_forest(uint32_t ranks, std::vector<SpanningTree> trees);

// For ranks that reach each other equally well. One tree of each root, a star; with `root`: one
// tree for each other rank, which has the data from the root and sends it to all others.
Forest forest_of_stars(uint32_t ranks);
Forest forest_of_stars(uint32_t ranks, uint32_t root);

}  // namespace weft::collective
