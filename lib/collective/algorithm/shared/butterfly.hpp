// SPDX-License-Identifier: BSD-3-Clause
// Butterflies: in each of log2(n) steps every rank exchanges with one partner, and the partners of
// the remaining steps, transitively, include every other rank at most once. Recursive halving is a
// butterfly whose partners differ in one bit; Swing and Bine have nearer partners.
#pragma once

#include <functional>

#include "lib/collective/plan/algorithm.hpp"

namespace weft::collective {

struct Butterfly {
  uint32_t ranks = 1;
  std::function<uint32_t(uint32_t rank, uint32_t step)> partner;

  uint32_t steps() const;
  // The ranks that a rank exchanges data with, transitively, from `step` on; itself first.
  std::vector<uint32_t> reach(uint32_t rank, uint32_t step) const;
};

// The partner on a ring of a power of two: even places have it ahead, odd ones behind, by the sum
// of the powers of -2 up to `step` (1, -1, 3, -5, 11, ..). `mirrored` swaps ahead and behind.
uint32_t negabinary_partner(uint32_t place, uint32_t step, uint32_t size, bool mirrored = false);

// A rank's block of a vector.
using BlockOf = std::function<Range(uint32_t rank)>;

// One step of a reduce-scatter: sends the blocks that the partner reaches, reduces the others.
// After all steps a rank has the sum of its own block in `work`.
void butterfly_scatter(Builder& b, const Butterfly& butterfly, uint32_t step,
                       const BlockOf& block_of);
// One step of an all-gather in `output`. Call with the last step first.
void butterfly_gather(Builder& b, const Butterfly& butterfly, uint32_t step,
                      const BlockOf& block_of);

}  // namespace weft::collective
