// SPDX-License-Identifier: BSD-3-Clause
// Direct: every rank talks to every other at once. One step of latency (two for the large
// all-reduce), each byte crosses once; it wants a network without a narrow place. Contributions are
// added in the order of ranks, so all reductions of this file give the same bits for an element
// whatever the size of the buffers: what Numerics::any promises. If no order is asked for, they are
// added to our own as they come, and a late rank holds up nobody's.
#include "lib/collective/algorithm/parts.hpp"
#include "lib/collective/plan/algorithm.hpp"

namespace weft::collective {
namespace {

// Calls with every other rank, the next one first, so that not all begin with the same.
template <class Call>
void for_others(const Builder& b, Call call) {
  const uint32_t n = b.shape().ranks;
  for (uint32_t i = 1; i < n; ++i) call((b.rank() + i) % n);
}

// Where the sum grows. In place that is over our own contribution, which then must not be for
// others too, and is to be the first or the second one: later ones would be lost before their turn.
Range sum_range(const Builder& b, Range out, bool gives_own) {
  const bool is_late = !b.shape().any_order && b.rank() > 1;
  const bool over_own = b.shape().in_place && (gives_own || is_late);
  return b.shape().exact && !over_own ? out : work(0, out.count);
}

// target = the contributions of all ranks to element `from`.. of their inputs, added up in the
// order of ranks, so that the result is the same bits whatever the sizes and the timing.
// Each other rank puts its range of the input here.
void fold_in_rank_order(Builder& b, Range own, Range target) {
  const uint32_t n = b.shape().ranks;
  if (n == 1) return b.copy(own, target);
  if (b.rank() <= 1) {
    b.receive_reduce(1 - b.rank(), own, target, Space::input);
  } else {
    b.receive(0, target);
    b.receive_reduce(1, target, target, Space::input);
  }
  for (uint32_t rank = 2; rank < n; ++rank) {
    if (rank == b.rank()) b.reduce(own, target);
    if (rank != b.rank()) b.receive_reduce(rank, target, target, Space::input);
  }
}

// The same in the order in which they come, if the shape asks for none.
void fold(Builder& b, Range own, Range target) {
  if (!b.shape().any_order) return fold_in_rank_order(b, own, target);
  b.copy(own, target);
  for_others(b, [&](uint32_t peer) { b.receive_reduce(peer, target, target, Space::input); });
}

}  // namespace

void single_step_all_reduce(Builder& b) {
  const uint64_t count = b.shape().count;
  b.keep_order();
  for_others(b, [&](uint32_t peer) { b.put(peer, input(0, count)); });
  const Range sum = sum_range(b, output(0, count), true);
  fold(b, input(0, count), sum);
  b.finish(sum, output(0, count));
}

void direct_all_reduce(Builder& b) {
  const uint64_t count = b.shape().count;
  const uint32_t n = b.shape().ranks;
  for_others(b, [&](uint32_t peer) { b.put(peer, block(input(0, count), peer, n)); });
  const Range own = block(input(0, count), b.rank(), n);
  const Range out = block(output(0, count), b.rank(), n);
  const Range sum = sum_range(b, out, false);
  fold(b, own, sum);
  b.finish(sum, out);
  for_others(b, [&](uint32_t peer) { b.put(peer, out); });
  for_others(b, [&](uint32_t peer) { b.receive(peer, block(output(0, count), peer, n)); });
}

void direct_reduce_scatter(Builder& b) {
  const Range own = share(b.shape(), b.rank());
  const uint64_t count = own.count;
  for_others(b, [&](uint32_t peer) { b.put(peer, share(b.shape(), peer)); });
  const Range sum = sum_range(b, output(0, count), false);
  fold(b, own, sum);
  b.finish(sum, output(0, count));
}

void direct_all_gather(Builder& b) {
  const Range own = share(b.shape(), b.rank());
  for_others(b, [&](uint32_t peer) { b.put(peer, input(0, own.count)); });
  b.copy(input(0, own.count), own);
  for_others(b, [&](uint32_t peer) { b.receive(peer, share(b.shape(), peer)); });
}

void direct_broadcast(Builder& b) {
  const uint64_t count = b.shape().count;
  if (b.rank() != b.shape().root) return b.receive(b.shape().root, output(0, count));
  for_others(b, [&](uint32_t peer) { b.put(peer, input(0, count)); });
  b.copy(input(0, count), output(0, count));
}

void direct_reduce(Builder& b) {
  const uint64_t count = b.shape().count;
  if (b.rank() != b.shape().root) return b.put(b.shape().root, input(0, count));
  const Range sum = sum_range(b, output(0, count), false);
  fold(b, input(0, count), sum);
  b.finish(sum, output(0, count));
}

void direct_all_to_all(Builder& b) {
  const Shape& shape = b.shape();
  const auto for_parts = [&](auto call) {
    for (uint32_t part = 0; part < shape.blocks.parts; ++part) call(part);
  };
  for_others(b, [&](uint32_t peer) {
    for_parts([&](uint32_t part) { b.put(peer, given(shape, b.rank(), peer, part)); });
  });
  for_parts([&](uint32_t part) {
    b.copy(given(shape, b.rank(), b.rank(), part), taken(shape, b.rank(), b.rank(), part));
  });
  for_others(b, [&](uint32_t peer) {
    for_parts([&](uint32_t part) { b.receive(peer, taken(shape, peer, b.rank(), part)); });
  });
}

}  // namespace weft::collective
