// SPDX-License-Identifier: BSD-3-Clause
// Pairwise all-to-all: in round i a rank gives to the one i ahead and takes from the one i behind,
// and begins the next round when it has got this one's data. Each byte crosses once, and no rank is
// ever sent to by two: no incast, at n-1 steps of latency.
#include "lib/collective/plan/algorithm.hpp"

namespace weft::collective {

void pairwise_all_to_all(Builder& b) {
  const uint32_t n = b.shape().ranks;
  const Shape& shape = b.shape();
  for (uint32_t part = 0; part < shape.blocks.parts; ++part)
    b.copy(given(shape, b.rank(), b.rank(), part), taken(shape, b.rank(), b.rank(), part));
  // In place, the block for a later round may be overwritten before: give from a copy.
  const uint64_t all = input_size(shape, b.rank());
  if (shape.in_place) b.copy(input(0, all), work(0, all));
  for (uint32_t i = 1; i < n; ++i) {
    const uint32_t to = (b.rank() + i) % n, from = (b.rank() + n - i) % n;
    for (uint32_t part = 0; part < shape.blocks.parts; ++part) {
      Range source = given(shape, b.rank(), to, part);
      if (shape.in_place) source.space = Space::work;
      b.put(to, source);
    }
    for (uint32_t part = 0; part < shape.blocks.parts; ++part)
      b.receive(from, taken(shape, from, b.rank(), part));
    b.next_round();
  }
}

}  // namespace weft::collective
