// SPDX-License-Identifier: BSD-3-Clause
// Building blocks of several algorithms.
#pragma once

#include <bit>

#include "lib/base/check.hpp"
#include "lib/collective/plan/algorithm.hpp"

namespace weft::collective {

// The target of a complete reduction before finish() into `out`: `out` itself if accumulators are
// elements.
inline Range reduction_target(const Builder& b, Range out, Range accumulators) {
  WEFT_DCHECK(out.count == accumulators.count && accumulators.space == Space::work);
  return b.shape().exact ? out : accumulators;
}

// A reduction over one rank: its input, rounded like a reduction over several.
inline void single_rank_reduction(Builder& b) {
  WEFT_DCHECK(b.shape().ranks == 1);
  const uint64_t count = output_size(b.shape(), 0);
  const Range target = reduction_target(b, output(0, count), work(0, count));
  b.copy(input(0, count), target);
  b.finish(target, output(0, count));
}

// For numbers of ranks that are not a power of two: of the first 2 * extra ranks, odd ones also
// represent their even neighbour, so that the number of participants is a power of two.
struct Folding {
  uint32_t participants;
  uint32_t extra;
  explicit Folding(uint32_t ranks)
      : participants(std::bit_floor(ranks)), extra(ranks - std::bit_floor(ranks)) {
    WEFT_DCHECK(extra < participants);
  }
  bool is_folded(uint32_t rank) const { return rank < 2 * extra && rank % 2 == 0; }
  bool represents_two(uint32_t rank) const { return rank < 2 * extra && rank % 2 == 1; }
  uint32_t participant(uint32_t rank) const {
    WEFT_DCHECK(!is_folded(rank));
    return rank < 2 * extra ? rank / 2 : rank - extra;
  }
  uint32_t rank(uint32_t participant) const {
    WEFT_DCHECK(participant < participants);
    return participant < extra ? 2 * participant + 1 : participant + extra;
  }
};

}  // namespace weft::collective
