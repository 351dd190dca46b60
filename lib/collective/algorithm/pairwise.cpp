// SPDX-License-Identifier: BSD-3-Clause
// Pairwise all-to-all: in round i a rank sends to the rank i ahead and receives from the rank i
// behind, and starts the next round when it has received this round's data. Each byte is sent once,
// and no rank receives from two at a time: no incast, at n-1 steps of latency.
#include "lib/collective/plan/manifest.hpp"

namespace weft::collective {

static void pairwise_all_to_all(Builder& b) {
  const uint32_t n = b.shape().ranks;
  const Shape& shape = b.shape();
  for (uint32_t part = 0; part < shape.blocks.parts; ++part)
    b.copy(send_block(shape, b.rank(), b.rank(), part),
           receive_block(shape, b.rank(), b.rank(), part));
  // In place, a receive may overwrite the block for a later round: send from a copy.
  const uint64_t all = input_size(shape, b.rank());
  if (shape.in_place) b.copy(input(0, all), work(0, all));
  for (uint32_t i = 1; i < n; ++i) {
    const uint32_t to = (b.rank() + i) % n, from = (b.rank() + n - i) % n;
    for (uint32_t part = 0; part < shape.blocks.parts; ++part) {
      Range source = send_block(shape, b.rank(), to, part);
      if (shape.in_place) source.space = Space::work;
      b.put(to, source);
    }
    for (uint32_t part = 0; part < shape.blocks.parts; ++part)
      b.receive(from, receive_block(shape, from, b.rank(), part));
    b.next_round();
  }
}

constexpr Algorithm kAlgorithms[] = {
    {"pairwise", Collective::all_to_all, pairwise_all_to_all, {}, 30},
    {"pairwise", Collective::all_to_all_v, pairwise_all_to_all, {}, 30},
    {"pairwise", Collective::dispatch, pairwise_all_to_all, {}, 30},
    {"pairwise", Collective::combine, pairwise_all_to_all, {}, 30},
};
WEFT_ALGORITHMS(pairwise, kAlgorithms);

}  // namespace weft::collective
