// SPDX-License-Identifier: BSD-3-Clause
// Bine (binomial negabinary) trees and butterflies: like recursive halving, with distances that are
// a third shorter, so that fewer bytes cross between groups of neighbouring ranks. Trees serve
// broadcast and reduce of small vectors, butterflies all-gather and reduce-scatter.
// After De Sensi et al. (2025), "Bine Trees: Enhancing Collective Operations by Optimizing
// Communication Locality".
#include "lib/base/check.hpp"
#include "lib/collective/algorithm/shared/butterfly.hpp"
#include "lib/collective/algorithm/shared/parts.hpp"
#include "lib/collective/plan/manifest.hpp"

namespace weft::collective {
namespace {

Butterfly make_bine(uint32_t ranks) {
  return {ranks,
          [ranks](uint32_t rank, uint32_t step) { return negabinary_partner(rank, step, ranks); }};
}

// A rank's place in the tree rooted at place 0. Step by step, from the farthest partners to the
// nearest, every rank in the tree adds its partner as a child.
struct TreePlace {
  uint32_t place = 0, parent = 0;
  uint32_t first_step = 0;  // first step in which it has a child; 0 for the root
};

struct Tree {
  uint32_t ranks, root, steps;
  explicit Tree(const Shape& shape)
      : ranks(shape.ranks), root(shape.root), steps(Butterfly{shape.ranks, {}}.steps()) {}

  uint32_t partner(uint32_t place, uint32_t step) const {
    WEFT_DCHECK(place < ranks && step < steps);
    return negabinary_partner(place, steps - 1 - step, ranks);
  }
  uint32_t rank_of(uint32_t place) const { return (place + root) % ranks; }
  TreePlace place_of(uint32_t rank) const {
    TreePlace own{.place = (rank + ranks - root) % ranks};
    std::vector<uint32_t> in = {0};
    for (uint32_t step = 0; step < steps; ++step)
      for (size_t i = in.size(); i-- > 0;) {
        const uint32_t child = partner(in[i], step);
        if (child == own.place) own.parent = in[i], own.first_step = step + 1;
        in.push_back(child);
      }
    WEFT_DCHECK(in.size() == ranks && own.first_step <= steps);
    return own;
  }
};

}  // namespace

static void bine_broadcast(Builder& b) {
  const Tree tree(b.shape());
  const TreePlace own = tree.place_of(b.rank());
  const uint64_t count = b.shape().count;
  const bool root = own.place == 0;
  const Range data = root ? input(0, count) : output(0, count);
  if (!root) b.receive(tree.rank_of(own.parent), data);
  for (uint32_t step = own.first_step; step < tree.steps; ++step)
    b.put(tree.rank_of(tree.partner(own.place, step)), data);
  if (root) b.copy(data, output(0, count));
}

static void bine_reduce(Builder& b) {
  if (b.shape().ranks == 1) return single_rank_reduction(b);
  const Tree tree(b.shape());
  const TreePlace own = tree.place_of(b.rank());
  const uint64_t count = b.shape().count;
  const bool root = own.place == 0;
  const Range sum = root ? reduction_target(b, output(0, count), work(0, count)) : work(0, count);
  Range partial = input(0, count);
  for (uint32_t step = tree.steps; step-- > own.first_step;) {
    const bool from_leaf = step + 1 == tree.steps;
    b.receive_reduce(tree.rank_of(tree.partner(own.place, step)), partial, sum,
                     from_leaf ? Space::input : Space::work);
    partial = sum;
  }
  if (root) return b.finish(partial, output(0, count));
  b.put(tree.rank_of(own.parent), partial);
}

static void bine_all_gather(Builder& b) {
  const Range own = rank_block(b.shape(), b.rank());
  b.copy(input(0, own.count), own);
  const Butterfly bine = make_bine(b.shape().ranks);
  for (uint32_t step = bine.steps(); step-- > 0;)
    butterfly_gather(b, bine, step, [&](uint32_t rank) { return rank_block(b.shape(), rank); });
}

static void bine_reduce_scatter(Builder& b) {
  if (b.shape().ranks == 1) return single_rank_reduction(b);
  const Butterfly bine = make_bine(b.shape().ranks);
  for (uint32_t step = 0; step < bine.steps(); ++step)
    butterfly_scatter(b, bine, step, [&](uint32_t rank) { return rank_block(b.shape(), rank); });
  const Range own = rank_block(b.shape(), b.rank());
  b.finish(work(own.offset, own.count), output(0, own.count));
}

constexpr Algorithm kAlgorithms[] = {
    {"bine", Collective::reduce_scatter, bine_reduce_scatter, {.power_of_two = true}, 160},
    {"bine", Collective::all_gather, bine_all_gather, {.power_of_two = true}, 160},
    {"bine", Collective::broadcast, bine_broadcast, {.power_of_two = true, .passes_on = true}, 160},
    {"bine", Collective::reduce, bine_reduce, {.power_of_two = true, .passes_on = true}, 160},
    {"bine", Collective::all_gather_v, bine_all_gather, {.power_of_two = true}, 160},
    {"bine", Collective::reduce_scatter_v, bine_reduce_scatter, {.power_of_two = true}, 160},
};
WEFT_ALGORITHMS(bine, kAlgorithms);

}  // namespace weft::collective
