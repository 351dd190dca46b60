// SPDX-License-Identifier: BSD-3-Clause
// Butterflies: in each of log2(n) steps every rank has a partner, and from any step on it reaches,
// over its partners and theirs, every other rank in one way at most. Recursive halving is one, with
// partners that differ in a bit; Swing and Bine are others, with nearer partners.
#pragma once

#include <functional>

#include "lib/collective/plan/algorithm.hpp"

namespace weft::collective {

struct Butterfly {
  uint32_t ranks = 1;
  std::function<uint32_t(uint32_t rank, uint32_t step)> partner;

  uint32_t steps() const;
  // Whom a rank reaches in the steps from `step` on, itself first.
  std::vector<uint32_t> reach(uint32_t rank, uint32_t step) const;
};

// 1, -1, 3, -5, 11, ..: the sum of the powers of -2 up to `step`. Even places have their partner so
// far ahead, odd ones behind, on a ring of a power of two.
uint32_t negabinary_partner(uint32_t place, uint32_t step, uint32_t size, bool mirrored = false);

// A rank's block of a vector.
using BlockOf = std::function<Range(uint32_t rank)>;

// One step of a reduce-scatter: sends what the partner is to reach of the blocks, keeps the rest.
// After all steps a rank has the sum of its own block in `work`.
void butterfly_scatter(Builder& b, const Butterfly& butterfly, uint32_t step,
                       const BlockOf& block_of);
// One step of the way back, from `output` to all: the last step comes first.
void butterfly_gather(Builder& b, const Butterfly& butterfly, uint32_t step,
                      const BlockOf& block_of);

}  // namespace weft::collective
