// SPDX-License-Identifier: BSD-3-Clause
// Over trees that together use all links of a network (Shape::forest, lib/collective/model).
// Each block, or vector, is cut into as many parts as it has trees, and each part into pieces. They
// follow one another, a piece of the next tree a time behind that of the last: down to all ranks
// (broadcast, all_gather), up with sums (reduce, reduce_scatter), or up to the root and down again
// (all_reduce). Steps are listed in the order of time, so a piece never queues behind one that
// comes later. Without a forest the ranks are taken to be equally near.
#include <algorithm>

#include "lib/base/check.hpp"
#include "lib/collective/algorithm/shared/parts.hpp"
#include "lib/collective/plan/manifest.hpp"

namespace weft::collective {
namespace {

constexpr uint64_t kMostPieces = 8;
constexpr uint64_t kLeastPiece = 16 * 1024;  // elements
constexpr uint64_t kMostHops = 150'000;      // of all pieces over all trees

bool has_root(Collective collective) {
  return collective == Collective::broadcast || collective == Collective::reduce;
}

class Flood {
 public:
  explicit Flood(Builder& builder)
      : b_(builder), forest_(builder.shape().forest), rank_(builder.rank()) {
    const Shape& shape = b_.shape();
    if (forest_ == nullptr)
      forest_ = std::make_shared<const Forest>(has_root(shape.collective)
                                                   ? forest_of_stars(shape.ranks, shape.root)
                                                   : forest_of_stars(shape.ranks));
    WEFT_DCHECK(forest_->ranks == shape.ranks);
    const uint64_t hops = forest_->trees.size() * std::max(1U, shape.ranks - 1);
    uint64_t longest = 0;
    for (uint32_t tree = 0; tree < forest_->trees.size(); ++tree)
      longest = std::max(longest, part(tree).count);
    trees_ = static_cast<uint32_t>(forest_->trees.size());
    if (of_blocks()) {
      trees_ = 0;
      for (uint32_t root = 0; root < shape.ranks; ++root)
        trees_ = std::max(trees_, forest_->trees_of(root));
    }
    pieces_ =
        std::clamp<uint64_t>(std::min(longest / kLeastPiece, kMostHops / hops), 1, kMostPieces);
  }

  // Both ends of a hop list its pieces in the same order: of time, depth, and tree.
  void up() {
    const uint64_t height = forest_->height, hop = turns_of_hop();
    for (uint64_t time = 0; time < turns() + hop * height; ++time)
      for (uint32_t depth = 1; depth <= height; ++depth)
        hops_up(depth, time - hop * (height - depth));
  }
  void down() {
    const uint64_t height = forest_->height, hop = turns_of_hop();
    for (uint64_t time = 0; time < turns() + hop * height; ++time)
      for (uint32_t depth = 1; depth <= height; ++depth) hops_down(depth, time - hop * (depth - 1));
  }
  // A piece turns round when its sum is complete.
  void up_and_down() {
    const uint64_t height = forest_->height, hop = turns_of_hop();
    for (uint64_t time = 0; time < turns() + 2 * hop * height; ++time)
      for (uint32_t depth = 1; depth <= height; ++depth) {
        hops_down(depth, time - hop * (height + depth - 1));
        hops_up(depth, time - hop * (height - depth));
      }
  }

 private:
  // A piece takes as long for a hop as the pieces of some other trees do for their first one, since
  // these use other links. Steps that were listed earlier than their data come would hold up
  // others; a quarter of the trees was best, on the networks that were tried.
  uint64_t turns_of_hop() const { return std::max(1U, trees_ / 4); }
  // The trees of one vector, or of one block, take turns.
  uint64_t turns() const { return pieces_ * trees_; }
  bool of_blocks() const {
    return gathers(b_.shape().collective) || scatters(b_.shape().collective);
  }

  // What a tree carries, in the input of a reduction and in the output of others.
  Range part(uint32_t tree) const {
    const Shape& shape = b_.shape();
    const uint32_t root = forest_->trees[tree].root, first = forest_->first_of[root];
    if (of_blocks()) return block(rank_block(shape, root), tree - first, forest_->trees_of(root));
    const Space space = reduces(shape.collective) ? Space::input : Space::output;
    return block({space, 0, shape.count}, tree, static_cast<uint32_t>(forest_->trees.size()));
  }
  Range piece(uint32_t tree, uint64_t number) const {
    return block(part(tree), static_cast<uint32_t>(number), static_cast<uint32_t>(pieces_));
  }

  // The hops that end at this depth and whose turn it is: each child sends, or receives, a piece.
  // Turns before the first are larger than the last, since they wrap.
  template <class Call>
  void for_hops(uint32_t depth, uint64_t turn, Call call) const {
    if (turn >= turns()) return;
    const uint32_t index = static_cast<uint32_t>(turn % trees_);
    const auto hops_of = [&](uint32_t tree) {
      const SpanningTree& t = forest_->trees[tree];
      const Range range = piece(tree, turn / trees_);
      if (t.depth[rank_] == depth) call(t, rank_, range);
      if (t.depth[rank_] + 1 != depth) return;
      for (const uint32_t child : t.children[rank_]) call(t, child, range);
    };
    if (!of_blocks()) return hops_of(index);
    for (uint32_t root = 0; root < forest_->ranks; ++root)
      if (index < forest_->trees_of(root)) hops_of(forest_->first_of[root] + index);
  }

  void hops_down(uint32_t depth, uint64_t turn) {
    for_hops(depth, turn, [&](const SpanningTree& t, uint32_t child, const Range& own) {
      const Range range = in_output(own);
      WEFT_DCHECK(t.depth[child] == depth);
      if (child == rank_)
        b_.receive(t.parent[rank_], range, Space::output);
      else
        b_.put(child, t.root == rank_ ? at_root(range) : range);
    });
  }

  void hops_up(uint32_t depth, uint64_t turn) {
    for_hops(depth, turn, [&](const SpanningTree& t, uint32_t child, const Range& own) {
      WEFT_DCHECK(t.depth[child] == depth);
      if (child == rank_) return b_.put(t.parent[rank_], is_leaf(t, rank_) ? own : sum_of(t, own));
      const Space from = is_leaf(t, child) ? Space::input : Space::work;
      const bool first = child == t.children[rank_].front();
      b_.receive_reduce(child, first ? own : sum_of(t, own), sum_of(t, own), from);
      if (t.root == rank_ && child == t.children[rank_].back())
        b_.finish(sum_of(t, own), in_output(own));
    });
  }

  // Where this rank keeps the sum of a piece: the root of one that goes no further may add in the
  // output.
  Range sum_of(const SpanningTree& tree, const Range& own) const {
    const Range sum = work(own.offset, own.count);
    return tree.root == rank_ ? reduction_target(b_, in_output(own), sum) : sum;
  }
  Range in_output(const Range& own) const {
    const uint64_t before =
        scatters(b_.shape().collective) ? rank_block(b_.shape(), rank_).offset : 0;
    WEFT_DCHECK(own.offset >= before || !scatters(b_.shape().collective));
    return output(own.offset - before, own.count);
  }
  // The root sends what the application gave it, not its copy; of a sum there is one only.
  Range at_root(const Range& range) const {
    const Collective collective = b_.shape().collective;
    if (reduces(collective)) return range;
    const uint64_t before = gathers(collective) ? rank_block(b_.shape(), rank_).offset : 0;
    WEFT_DCHECK(range.offset >= before);
    return input(range.offset - before, range.count);
  }

  static bool is_leaf(const SpanningTree& tree, uint32_t rank) {
    return tree.children[rank].empty();
  }

  Builder& b_;
  std::shared_ptr<const Forest> forest_;
  uint32_t rank_;
  uint64_t pieces_ = 1;  // of each part
  uint32_t trees_ = 1;   // of a vector, or of the block that has most
};

}  // namespace

static void forest_all_reduce(Builder& b) {
  if (b.shape().ranks == 1) return single_rank_reduction(b);
  b.work_on_output();
  Flood(b).up_and_down();
}

static void forest_sum(Builder& b) {
  if (b.shape().ranks == 1) return single_rank_reduction(b);
  Flood(b).up();
}

static void forest_all_gather(Builder& b) {
  const Range own = rank_block(b.shape(), b.rank());
  b.copy(input(0, own.count), own);
  Flood(b).down();
}

static void forest_broadcast(Builder& b) {
  if (b.rank() == b.shape().root) b.copy(input(0, b.shape().count), output(0, b.shape().count));
  Flood(b).down();
}

constexpr Traits kTraits{.over_forest = true};
constexpr Algorithm kAlgorithms[] = {
    {"forest", Collective::all_reduce, forest_all_reduce, kTraits, 180},
    {"forest", Collective::reduce_scatter, forest_sum, kTraits, 180},
    {"forest", Collective::reduce_scatter_v, forest_sum, kTraits, 180},
    {"forest", Collective::all_gather, forest_all_gather, kTraits, 180},
    {"forest", Collective::all_gather_v, forest_all_gather, kTraits, 180},
    {"forest", Collective::broadcast, forest_broadcast, kTraits, 180},
    {"forest", Collective::reduce, forest_sum, kTraits, 180},
};
WEFT_ALGORITHMS(forest, kAlgorithms);

}  // namespace weft::collective
