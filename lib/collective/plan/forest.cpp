// SPDX-License-Identifier: BSD-3-Clause
// Makes forests of trees, and those of ranks that are all equally near.
#include "lib/collective/plan/forest.hpp"

#include <algorithm>

namespace weft::collective {
namespace {

constexpr uint32_t kUnknown = UINT32_MAX;

// The depth of a rank, and of all ranks on its way to the root.
uint32_t find_depth(SpanningTree& tree, uint32_t rank) {
  WEFT_DCHECK(rank < tree.parent.size());
  if (tree.depth[rank] != kUnknown) return tree.depth[rank];
  WEFT_CHECK(tree.parent[rank] != rank);  // only the root is its own parent
  return tree.depth[rank] = find_depth(tree, tree.parent[rank]) + 1;
}

}  // namespace

Forest make_forest(uint32_t ranks, std::vector<SpanningTree> trees) {
  Forest forest{.ranks = ranks, .trees = std::move(trees), .fingerprint = 0xcbf29ce484222325};
  std::stable_sort(forest.trees.begin(), forest.trees.end(),
                   [](const SpanningTree& a, const SpanningTree& b) { return a.root < b.root; });
  forest.first_of.assign(ranks + 1, 0);
  for (SpanningTree& tree : forest.trees) {
    WEFT_CHECK(tree.root < ranks && tree.parent.size() == ranks);
    ++forest.first_of[tree.root + 1];
    tree.depth.assign(ranks, kUnknown);
    tree.depth[tree.root] = 0;
    for (uint32_t rank = 0; rank < ranks; ++rank)
      forest.height = std::max(forest.height, find_depth(tree, rank));
    for (const uint32_t parent : tree.parent)  // FNV-1a
      forest.fingerprint = (forest.fingerprint ^ parent) * 0x100000001b3;
  }
  for (uint32_t rank = 0; rank < ranks; ++rank) forest.first_of[rank + 1] += forest.first_of[rank];
  WEFT_DCHECK(forest.first_of.back() == forest.trees.size());
  return forest;
}

Forest forest_of_stars(uint32_t ranks) {
  std::vector<SpanningTree> trees;
  for (uint32_t root = 0; root < ranks; ++root)
    trees.push_back({root, std::vector<uint32_t>(ranks, root), {}});
  return make_forest(ranks, std::move(trees));
}

Forest forest_of_stars(uint32_t ranks, uint32_t root) {
  WEFT_DCHECK(root < ranks);
  std::vector<SpanningTree> trees;
  for (uint32_t centre = 0; centre < ranks; ++centre) {
    if (centre == root && ranks > 1) continue;
    SpanningTree tree{root, std::vector<uint32_t>(ranks, centre), {}};
    tree.parent[centre] = tree.parent[root] = root;
    trees.push_back(std::move(tree));
  }
  return make_forest(ranks, std::move(trees));
}

}  // namespace weft::collective
