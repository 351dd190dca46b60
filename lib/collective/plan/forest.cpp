// SPDX-License-Identifier: BSD-3-Clause
// Makes forests of trees, and those of ranks that are all equally near.
#include "lib/collective/plan/forest.hpp"

#include <algorithm>

namespace weft::collective {
namespace {

// Children and depths; returns the height.
uint32_t measure(SpanningTree& tree) {
  const uint32_t ranks = static_cast<uint32_t>(tree.parent.size());
  WEFT_CHECK(tree.root < ranks && tree.parent[tree.root] == tree.root);
  tree.children.assign(ranks, {});
  tree.depth.assign(ranks, 0);
  for (uint32_t rank = 0; rank < ranks; ++rank)
    if (rank != tree.root) tree.children[tree.parent[rank]].push_back(rank);
  std::vector<uint32_t> order = {tree.root};
  for (size_t at = 0; at < order.size(); ++at)
    for (const uint32_t child : tree.children[order[at]]) {
      tree.depth[child] = tree.depth[order[at]] + 1;
      order.push_back(child);
    }
  WEFT_CHECK(order.size() == ranks);  // parents that form a circle are not reached
  return tree.depth[order.back()];
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
    forest.height = std::max(forest.height, measure(tree));
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
    trees.push_back({root, std::vector<uint32_t>(ranks, root)});
  return make_forest(ranks, std::move(trees));
}

Forest forest_of_stars(uint32_t ranks, uint32_t root) {
  WEFT_DCHECK(root < ranks);
  std::vector<SpanningTree> trees;
  for (uint32_t centre = 0; centre < ranks; ++centre) {
    if (centre == root && ranks > 1) continue;
    SpanningTree tree{root, std::vector<uint32_t>(ranks, centre)};
    tree.parent[centre] = tree.parent[root] = root;
    trees.push_back(std::move(tree));
  }
  return make_forest(ranks, std::move(trees));
}

}  // namespace weft::collective
