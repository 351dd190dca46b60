// SPDX-License-Identifier: BSD-3-Clause
// Recursive halving and doubling: in step k a rank exchanges with the one whose number differs in
// bit k. Doubling sends the whole vector log2(n) times (least latency, for small vectors); halving
// sends half of what is left each time, and with doubling back it is an all-reduce of the same
// bytes as the ring in 2 log2(n) steps. Numbers that are no power of two are folded first.
// After Thakur, Rabenseifner, Gropp (2005), "Optimization of collective communication operations".
#include "lib/collective/algorithm.hpp"
#include "lib/collective/algorithm/parts.hpp"

namespace weft::collective {
namespace {

// The even neighbour's contribution moves to the odd one. Returns where the partial result is now.
Space fold(Builder& b, const Folding& folding) {
  const uint64_t count = b.shape().count;
  if (!folding.stands_for_two(b.rank())) return Space::input;
  b.receive_reduce(b.rank() - 1, input(0, count), work(0, count), Space::input);
  return Space::work;
}

// Where a rank's partial result is after fold().
Space folded_space(const Folding& folding, uint32_t rank) {
  return folding.stands_for_two(rank) ? Space::work : Space::input;
}

// What the neighbours that sit out do: give, and get the result.
bool sit_out(Builder& b, const Folding& folding) {
  if (!folding.sits_out(b.rank())) return false;
  b.put(b.rank() + 1, input(0, b.shape().count));
  b.receive(b.rank() + 1, output(0, b.shape().count));
  return true;
}

void unfold(Builder& b, const Folding& folding) {
  if (folding.stands_for_two(b.rank())) b.put(b.rank() - 1, output(0, b.shape().count));
}

// Blocks [low, high) of n.
Range blocks(Range whole, uint32_t low, uint32_t high, uint32_t n) {
  const uint64_t from = block(whole, low, n).offset;
  return {whole.space, from, block(whole, high - 1, n).end() - from};
}

// Halves what `number` is responsible for, from all n blocks down to block `number`.
template <class RankOf, class SpaceOf>
void halve(Builder& b, Range whole, uint32_t number, uint32_t n, RankOf rank_of,
           SpaceOf first_space) {
  uint32_t low = 0, high = n;
  for (uint32_t mask = n / 2; mask > 0; mask /= 2) {
    const uint32_t peer = rank_of(number ^ mask);
    const bool first = mask == n / 2;
    const uint32_t middle = low + mask;
    const bool upper = (number & mask) != 0;
    Range source = whole;
    source.space = first ? first_space(b.rank()) : Space::work;
    b.put(peer, upper ? blocks(source, low, middle, n) : blocks(source, middle, high, n));
    (upper ? low : high) = middle;
    b.receive_reduce(peer, blocks(source, low, high, n),
                     blocks(work(whole.offset, whole.count), low, high, n),
                     first ? first_space(peer) : Space::work);
  }
}

template <class RankOf>
void double_back(Builder& b, Range whole, uint32_t number, uint32_t n, RankOf rank_of) {
  for (uint32_t mask = 1; mask < n; mask *= 2) {
    const uint32_t low = number / mask * mask, other = low ^ mask;
    b.put(rank_of(number ^ mask), blocks(whole, low, low + mask, n));
    b.receive(rank_of(number ^ mask), blocks(whole, other, other + mask, n));
  }
}

}  // namespace

void doubling_all_reduce(Builder& b) {
  const uint64_t count = b.shape().count;
  const Folding folding(b.shape().ranks);
  b.work_on_output();
  if (b.shape().ranks == 1) return alone(b);
  if (sit_out(b, folding)) return;
  Range partial = {fold(b, folding), 0, count};
  for (uint32_t mask = 1; mask < folding.participants; mask *= 2) {
    const uint32_t peer = folding.rank(folding.number(b.rank()) ^ mask);
    b.put(peer, partial);
    b.receive_reduce(peer, partial, work(0, count),
                     mask == 1 ? folded_space(folding, peer) : Space::work);
    partial = work(0, count);
  }
  b.finish(work(0, count), output(0, count));
  unfold(b, folding);
}

void halving_doubling_all_reduce(Builder& b) {
  const uint64_t count = b.shape().count;
  const Folding folding(b.shape().ranks);
  const uint32_t n = folding.participants;
  const uint32_t number = folding.number(b.rank());
  b.work_on_output();
  if (b.shape().ranks == 1) return alone(b);
  if (sit_out(b, folding)) return;
  fold(b, folding);
  const auto rank_of = [&](uint32_t i) { return folding.rank(i); };
  const auto first_space = [&](uint32_t rank) { return folded_space(folding, rank); };
  halve(b, input(0, count), number, n, rank_of, first_space);
  b.finish(block(work(0, count), number, n), block(output(0, count), number, n));
  double_back(b, output(0, count), number, n, rank_of);
  unfold(b, folding);
}

void halving_reduce_scatter(Builder& b) {
  const uint64_t count = b.shape().count;
  const uint32_t n = b.shape().ranks;
  if (n == 1) return alone(b);
  const auto rank_of = [](uint32_t i) { return i; };
  const auto first_space = [](uint32_t) { return Space::input; };
  halve(b, input(0, n * count), b.rank(), n, rank_of, first_space);
  b.finish(work(b.rank() * count, count), output(0, count));
}

void doubling_all_gather(Builder& b) {
  const uint64_t count = b.shape().count;
  const uint32_t n = b.shape().ranks;
  b.copy(input(0, count), output(b.rank() * count, count));
  double_back(b, output(0, n * count), b.rank(), n, [](uint32_t i) { return i; });
}

}  // namespace weft::collective
