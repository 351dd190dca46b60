// SPDX-License-Identifier: BSD-3-Clause
// Parts that several algorithms are made of.
#pragma once

#include <bit>

#include "lib/collective/plan/algorithm.hpp"

namespace weft::collective {

// Where a complete reduction goes, to be finished into `out`: straight there if accumulators are
// elements.
inline Range result(const Builder& b, Range out, Range accumulators) {
  return b.shape().exact ? out : accumulators;
}

// A reduction of one rank: its input, rounded as a reduction of several would be.
inline void alone(Builder& b) {
  const uint64_t count = output_size(b.shape(), 0);
  const Range target = result(b, output(0, count), work(0, count));
  b.copy(input(0, count), target);
  b.finish(target, output(0, count));
}

// Ranks of a number that is no power of two: of the first 2 * extra ranks the odd ones also stand
// for their even neighbour, so that a power of two take part.
struct Folding {
  uint32_t participants;
  uint32_t extra;
  explicit Folding(uint32_t ranks)
      : participants(std::bit_floor(ranks)), extra(ranks - std::bit_floor(ranks)) {}
  bool sits_out(uint32_t rank) const { return rank < 2 * extra && rank % 2 == 0; }
  bool stands_for_two(uint32_t rank) const { return rank < 2 * extra && rank % 2 == 1; }
  uint32_t number(uint32_t rank) const { return rank < 2 * extra ? rank / 2 : rank - extra; }
  uint32_t rank(uint32_t number) const { return number < extra ? 2 * number + 1 : number + extra; }
};

}  // namespace weft::collective
