// SPDX-License-Identifier: BSD-3-Clause
// A collective algorithm of your own: an all-reduce through rank 0, which adds up what the others
// send in the order of ranks and sends them the result. docs/extending/algorithm.md explains it.
#pragma once

#include "lib/collective/plan/algorithm.hpp"

namespace star {

using namespace weft::collective;

// The steps of rank b.rank(). Dependencies between them follow from the memory that they touch.
inline void all_reduce(Builder& b) {
  const uint32_t ranks = b.shape().ranks;
  const uint64_t count = b.shape().count;
  if (b.rank() != 0) {
    b.put(0, input(0, count));
    b.receive(0, output(0, count), Space::output);
    return;
  }
  const Range sum = work(0, count);
  b.copy(input(0, count), sum);
  for (uint32_t peer = 1; peer < ranks; ++peer) b.receive_reduce(peer, sum, sum, Space::input);
  b.finish(sum, output(0, count));
  for (uint32_t peer = 1; peer < ranks; ++peer) b.put(peer, output(0, count));
}

inline constexpr Algorithm kAlgorithm = {
    "star", weft::Collective::all_reduce, all_reduce, {.rank_order = true}};

}  // namespace star
