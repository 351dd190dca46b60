// SPDX-License-Identifier: BSD-3-Clause
// Pairwise all-to-all: in round i a rank gives to the one i ahead and takes from the one i behind,
// and begins the next round when it has got this one's data. Each byte crosses once, and no rank is
// ever sent to by two: no incast, at n-1 steps of latency.
#include "lib/collective/algorithm.hpp"

namespace weft::collective {

void pairwise_all_to_all(Builder& b) {
  const uint32_t n = b.shape().ranks;
  const uint64_t count = b.shape().count;
  b.copy(input(b.rank() * count, count), output(b.rank() * count, count));
  // In place, the block for a later round may be overwritten before: give from a copy.
  const Space given = b.shape().in_place ? Space::work : Space::input;
  if (b.shape().in_place) b.copy(input(0, n * count), work(0, n * count));
  for (uint32_t i = 1; i < n; ++i) {
    const uint32_t to = (b.rank() + i) % n, from = (b.rank() + n - i) % n;
    b.put(to, {given, to * count, count});
    b.receive(from, output(from * count, count));
    b.next_round();
  }
}

}  // namespace weft::collective
