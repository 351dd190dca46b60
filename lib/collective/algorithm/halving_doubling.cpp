// SPDX-License-Identifier: BSD-3-Clause
// Recursive halving and doubling: in step k a rank exchanges with the rank whose number differs in
// bit k. Doubling sends the whole vector log2(n) times (least latency, for small vectors). Halving
// sends half of the rest each time (reduce-scatter); followed by an all-gather by doubling it is an
// all-reduce that sends as many bytes as the ring in 2 log2(n) steps. Numbers of ranks that are no
// power of two are folded first.
// After Thakur, Rabenseifner, Gropp (2005), "Optimization of collective communication operations".
#include "lib/base/check.hpp"
#include "lib/collective/algorithm/shared/parts.hpp"
#include "lib/collective/plan/manifest.hpp"

namespace weft::collective {
namespace {

// Adds the even neighbour's contribution to the odd rank's. Returns the space of the partial sum.
Space fold(Builder& b, const Folding& folding) {
  const uint64_t count = b.shape().count;
  WEFT_DCHECK(!folding.is_folded(b.rank()));
  if (!folding.represents_two(b.rank())) return Space::input;
  b.receive_reduce(b.rank() - 1, input(0, count), work(0, count), Space::input);
  return Space::work;
}

// The space of a rank's partial sum after fold().
Space folded_space(const Folding& folding, uint32_t rank) {
  return folding.represents_two(rank) ? Space::work : Space::input;
}

// Folded ranks send their contribution and receive the result; returns false for other ranks.
bool run_folded_rank(Builder& b, const Folding& folding) {
  if (!folding.is_folded(b.rank())) return false;
  b.put(b.rank() + 1, input(0, b.shape().count));
  b.receive(b.rank() + 1, output(0, b.shape().count));
  return true;
}

void unfold(Builder& b, const Folding& folding) {
  if (folding.represents_two(b.rank())) b.put(b.rank() - 1, output(0, b.shape().count));
}

// Blocks [low, high) of n blocks of equal size (to one element).
struct EvenBlocks {
  Range whole;
  uint32_t n;
  Range operator()(uint32_t low, uint32_t high) const {
    WEFT_DCHECK(low < high && high <= n);
    const uint64_t from = block(whole, low, n).offset;
    return {whole.space, from, block(whole, high - 1, n).end() - from};
  }
};
// The blocks of ranks [low, high).
struct RankBlocks {
  const Shape& shape;
  Range operator()(uint32_t low, uint32_t high) const {
    WEFT_DCHECK(low < high && high <= shape.ranks);
    const Range first = rank_block(shape, low);
    return {first.space, first.offset, rank_block(shape, high - 1).end() - first.offset};
  }
};

Range in_space(Range range, Space space) { return {space, range.offset, range.count}; }

// Reduce-scatter: halves the range that participant `number` reduces, from all n blocks down to
// block `number`.
template <class Blocks, class RankOf, class SpaceOf>
void reduce_scatter_by_halving(Builder& b, const Blocks& blocks, uint32_t number, uint32_t n,
                               RankOf rank_of, SpaceOf first_space) {
  WEFT_DCHECK(std::has_single_bit(n) && number < n);
  uint32_t low = 0, high = n;
  for (uint32_t mask = n / 2; mask > 0; mask /= 2) {
    const uint32_t peer = rank_of(number ^ mask);
    const bool first = mask == n / 2;
    const uint32_t middle = low + mask;
    const bool upper = (number & mask) != 0;
    const Space space = first ? first_space(b.rank()) : Space::work;
    b.put(peer, in_space(upper ? blocks(low, middle) : blocks(middle, high), space));
    (upper ? low : high) = middle;
    b.receive_reduce(peer, in_space(blocks(low, high), space),
                     in_space(blocks(low, high), Space::work),
                     first ? first_space(peer) : Space::work);
  }
}

template <class Blocks, class RankOf>
void all_gather_by_doubling(Builder& b, const Blocks& blocks, uint32_t number, uint32_t n,
                            RankOf rank_of) {
  WEFT_DCHECK(std::has_single_bit(n) && number < n);
  for (uint32_t mask = 1; mask < n; mask *= 2) {
    const uint32_t low = number / mask * mask, other = low ^ mask;
    b.put(rank_of(number ^ mask), blocks(low, low + mask));
    b.receive(rank_of(number ^ mask), blocks(other, other + mask));
  }
}

}  // namespace

static void doubling_all_reduce(Builder& b) {
  const uint64_t count = b.shape().count;
  const Folding folding(b.shape().ranks);
  b.work_on_output();
  if (b.shape().ranks == 1) return single_rank_reduction(b);
  if (run_folded_rank(b, folding)) return;
  Range partial = {fold(b, folding), 0, count};
  for (uint32_t mask = 1; mask < folding.participants; mask *= 2) {
    const uint32_t peer = folding.rank(folding.participant(b.rank()) ^ mask);
    b.put(peer, partial);
    b.receive_reduce(peer, partial, work(0, count),
                     mask == 1 ? folded_space(folding, peer) : Space::work);
    partial = work(0, count);
  }
  b.finish(work(0, count), output(0, count));
  unfold(b, folding);
}

static void halving_doubling_all_reduce(Builder& b) {
  const uint64_t count = b.shape().count;
  const Folding folding(b.shape().ranks);
  const uint32_t n = folding.participants;
  b.work_on_output();
  if (b.shape().ranks == 1) return single_rank_reduction(b);
  if (run_folded_rank(b, folding)) return;
  const uint32_t number = folding.participant(b.rank());
  fold(b, folding);
  const auto rank_of = [&](uint32_t i) { return folding.rank(i); };
  const auto first_space = [&](uint32_t rank) { return folded_space(folding, rank); };
  reduce_scatter_by_halving(b, EvenBlocks{input(0, count), n}, number, n, rank_of, first_space);
  b.finish(block(work(0, count), number, n), block(output(0, count), number, n));
  all_gather_by_doubling(b, EvenBlocks{output(0, count), n}, number, n, rank_of);
  unfold(b, folding);
}

static void halving_reduce_scatter(Builder& b) {
  const uint32_t n = b.shape().ranks;
  if (n == 1) return single_rank_reduction(b);
  const auto rank_of = [](uint32_t i) { return i; };
  const auto first_space = [](uint32_t) { return Space::input; };
  reduce_scatter_by_halving(b, RankBlocks{b.shape()}, b.rank(), n, rank_of, first_space);
  const Range own = rank_block(b.shape(), b.rank());
  b.finish(in_space(own, Space::work), output(0, own.count));
}

static void doubling_all_gather(Builder& b) {
  const Range own = rank_block(b.shape(), b.rank());
  b.copy(input(0, own.count), own);
  all_gather_by_doubling(b, RankBlocks{b.shape()}, b.rank(), b.shape().ranks,
                         [](uint32_t i) { return i; });
}

constexpr Algorithm kAlgorithms[] = {
    {"doubling", Collective::all_reduce, doubling_all_reduce, {}, 40},
    {"halving_doubling", Collective::all_reduce, halving_doubling_all_reduce, {}, 60},
    {"halving", Collective::reduce_scatter, halving_reduce_scatter, {.power_of_two = true}, 50},
    {"doubling", Collective::all_gather, doubling_all_gather, {.power_of_two = true}, 40},
    {"doubling", Collective::all_gather_v, doubling_all_gather, {.power_of_two = true}, 40},
    {"halving", Collective::reduce_scatter_v, halving_reduce_scatter, {.power_of_two = true}, 50},
};
WEFT_ALGORITHMS(halving_doubling, kAlgorithms);

}  // namespace weft::collective
