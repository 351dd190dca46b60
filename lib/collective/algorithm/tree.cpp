// SPDX-License-Identifier: BSD-3-Clause
// Trees. Binomial: the number of ranks that have received (or sent) the data doubles in each step.
// Double binary tree: each half of the vector is reduced up and broadcast down a binary tree of its
// own; an inner node of one tree is a leaf of the other, so every rank sends and receives all the
// time, with a latency of log2(n) steps. After Sanders, Speck, Traeff (2009), "Two-tree algorithms
// for full bandwidth broadcast, reduction and scan".
#include <optional>

#include "lib/base/check.hpp"
#include "lib/collective/algorithm/shared/parts.hpp"
#include "lib/collective/plan/manifest.hpp"

namespace weft::collective {
namespace {

// A rank's neighbours in a tree of positions.
struct Node {
  std::optional<uint32_t> parent;
  std::vector<uint32_t> children;
};

// The root of the in-order binary tree over positions [low, high), low even: odd positions are
// inner nodes, even ones are leaves.
uint32_t subtree_root(uint32_t low, uint32_t high) {
  WEFT_DCHECK(low < high && low % 2 == 0);
  return high - low == 1 ? low : low + ((high - low) / 2 | 1);
}

Node tree_node(uint32_t position, uint32_t low, uint32_t high) {
  WEFT_DCHECK(low <= position && position < high);
  Node node;
  for (uint32_t top = subtree_root(low, high); top != position; top = subtree_root(low, high)) {
    node.parent = top;
    if (position < top) high = top;
    if (position > top) low = top + 1;
  }
  if (low < position) node.children.push_back(subtree_root(low, position));
  if (position + 1 < high) node.children.push_back(subtree_root(position + 1, high));
  return node;
}

bool is_leaf(uint32_t position, uint32_t n) { return tree_node(position, 0, n).children.empty(); }

// All-reduce of a part of the vector over the tree in which rank r has position (r + shift) % n.
void tree_all_reduce(Builder& b, uint64_t offset, uint64_t count, uint32_t shift) {
  const uint32_t n = b.shape().ranks;
  WEFT_DCHECK(shift <= n && offset + count <= b.shape().count);
  const Node node = tree_node((b.rank() + shift) % n, 0, n);
  const auto rank_of = [&](uint32_t position) { return (position + n - shift) % n; };
  Range partial = input(offset, count);
  for (const uint32_t child : node.children) {
    b.receive_reduce(rank_of(child), partial, work(offset, count),
                     is_leaf(child, n) ? Space::input : Space::work);
    partial = work(offset, count);
  }
  if (node.parent) {
    b.put(rank_of(*node.parent), partial);
    b.receive(rank_of(*node.parent), output(offset, count));
  } else {
    b.finish(partial, output(offset, count));
  }
  for (const uint32_t child : node.children) b.put(rank_of(child), output(offset, count));
}

}  // namespace

static void double_tree_all_reduce(Builder& b) {
  const uint64_t count = b.shape().count;
  b.work_on_output();
  if (b.shape().ranks == 1) return single_rank_reduction(b);
  tree_all_reduce(b, 0, count / 2, 0);
  tree_all_reduce(b, count / 2, count - count / 2, 1);
}

static void binomial_broadcast(Builder& b) {
  const uint32_t n = b.shape().ranks, root = b.shape().root;
  const uint64_t count = b.shape().count;
  const uint32_t place = (b.rank() + n - root) % n;  // the root is 0
  const Range data = place == 0 ? input(0, count) : output(0, count);
  const uint32_t lowest = place == 0 ? std::bit_ceil(n) : place & (~place + 1);
  if (place != 0) b.receive((place - lowest + root) % n, output(0, count));
  for (uint32_t bit = lowest / 2; bit > 0; bit /= 2)
    if (place + bit < n) b.put((place + bit + root) % n, data);
  if (place == 0) b.copy(data, output(0, count));
}

static void binomial_reduce(Builder& b) {
  const uint32_t n = b.shape().ranks, root = b.shape().root;
  const uint64_t count = b.shape().count;
  if (n == 1) return single_rank_reduction(b);
  const uint32_t place = (b.rank() + n - root) % n;
  const uint32_t lowest = place == 0 ? std::bit_ceil(n) : place & (~place + 1);
  const Range sum =
      place == 0 ? reduction_target(b, output(0, count), work(0, count)) : work(0, count);
  Range partial = input(0, count);
  for (uint32_t bit = 1; bit < lowest && place + bit < n; bit *= 2) {
    const uint32_t child = place + bit;
    const bool child_is_leaf = bit == 1 || child + 1 >= n;
    b.receive_reduce((child + root) % n, partial, sum, child_is_leaf ? Space::input : Space::work);
    partial = sum;
  }
  if (place == 0) return b.finish(partial, output(0, count));
  b.put((place - lowest + root) % n, partial);
}

constexpr Algorithm kAlgorithms[] = {
    {"double_tree", Collective::all_reduce, double_tree_all_reduce, {.passes_on = true}, 110},
    {"binomial", Collective::broadcast, binomial_broadcast, {.passes_on = true}, 70},
    {"binomial", Collective::reduce, binomial_reduce, {.passes_on = true}, 70},
};
WEFT_ALGORITHMS(tree, kAlgorithms);

}  // namespace weft::collective
