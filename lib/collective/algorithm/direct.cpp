// SPDX-License-Identifier: BSD-3-Clause
// Direct: every rank exchanges with every other at once. One step of latency (two for the large
// all-reduce), each byte is sent once; needs a network without bottlenecks. Contributions are added
// in the order of ranks, so all reductions of this file give the same bits for an element whatever
// the size of the buffers, as Numerics::any promises. If the shape allows any order, contributions
// are added to the rank's own in order of arrival, and a late rank delays no other contribution.
#include "lib/base/check.hpp"
#include "lib/collective/algorithm/shared/parts.hpp"
#include "lib/collective/plan/manifest.hpp"

namespace weft::collective {
namespace {

// Calls with every other rank, starting with the next one, so that ranks start with different
// peers.
template <class Call>
void for_each_peer(const Builder& b, Call call) {
  const uint32_t n = b.shape().ranks;
  for (uint32_t i = 1; i < n; ++i) call((b.rank() + i) % n);
}

// The range that accumulates the sum. In place it may be the rank's own contribution, but only if
// that is not also sent and is the first or second to be added: otherwise the sum would overwrite
// it before it is added.
Range sum_range(const Builder& b, Range out, bool sends_own) {
  WEFT_DCHECK(out.space == Space::output);
  const bool is_late = !b.shape().any_order && b.rank() > 1;
  const bool over_own = b.shape().in_place && (sends_own || is_late);
  return b.shape().exact && !over_own ? out : work(0, out.count);
}

// target = the sum of all ranks' contributions in the order of ranks, so that the bits depend
// neither on sizes nor on timing. `own` is this rank's contribution; every other rank puts its
// range of the input to this rank.
void fold_in_rank_order(Builder& b, Range own, Range target) {
  const uint32_t n = b.shape().ranks;
  WEFT_DCHECK(own.count == target.count);
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

// The same in order of arrival, if the shape allows any order.
void fold(Builder& b, Range own, Range target) {
  if (!b.shape().any_order) return fold_in_rank_order(b, own, target);
  b.copy(own, target);
  for_each_peer(b, [&](uint32_t peer) { b.receive_reduce(peer, target, target, Space::input); });
}

}  // namespace

static void single_step_all_reduce(Builder& b) {
  const uint64_t count = b.shape().count;
  b.keep_order();
  for_each_peer(b, [&](uint32_t peer) { b.put(peer, input(0, count)); });
  const Range sum = sum_range(b, output(0, count), true);
  fold(b, input(0, count), sum);
  b.finish(sum, output(0, count));
}

static void direct_all_reduce(Builder& b) {
  const uint64_t count = b.shape().count;
  const uint32_t n = b.shape().ranks;
  for_each_peer(b, [&](uint32_t peer) { b.put(peer, block(input(0, count), peer, n)); });
  const Range own = block(input(0, count), b.rank(), n);
  const Range out = block(output(0, count), b.rank(), n);
  const Range sum = sum_range(b, out, false);
  fold(b, own, sum);
  b.finish(sum, out);
  for_each_peer(b, [&](uint32_t peer) { b.put(peer, out); });
  for_each_peer(b, [&](uint32_t peer) { b.receive(peer, block(output(0, count), peer, n)); });
}

static void direct_reduce_scatter(Builder& b) {
  const Range own = rank_block(b.shape(), b.rank());
  const uint64_t count = own.count;
  for_each_peer(b, [&](uint32_t peer) { b.put(peer, rank_block(b.shape(), peer)); });
  const Range sum = sum_range(b, output(0, count), false);
  fold(b, own, sum);
  b.finish(sum, output(0, count));
}

static void direct_all_gather(Builder& b) {
  const Range own = rank_block(b.shape(), b.rank());
  for_each_peer(b, [&](uint32_t peer) { b.put(peer, input(0, own.count)); });
  b.copy(input(0, own.count), own);
  for_each_peer(b, [&](uint32_t peer) { b.receive(peer, rank_block(b.shape(), peer)); });
}

static void direct_broadcast(Builder& b) {
  const uint64_t count = b.shape().count;
  if (b.rank() != b.shape().root) return b.receive(b.shape().root, output(0, count));
  for_each_peer(b, [&](uint32_t peer) { b.put(peer, input(0, count)); });
  b.copy(input(0, count), output(0, count));
}

static void direct_reduce(Builder& b) {
  const uint64_t count = b.shape().count;
  if (b.rank() != b.shape().root) return b.put(b.shape().root, input(0, count));
  const Range sum = sum_range(b, output(0, count), false);
  fold(b, input(0, count), sum);
  b.finish(sum, output(0, count));
}

static void direct_all_to_all(Builder& b) {
  const Shape& shape = b.shape();
  const auto for_parts = [&](auto call) {
    for (uint32_t part = 0; part < shape.blocks.parts; ++part) call(part);
  };
  for_each_peer(b, [&](uint32_t peer) {
    for_parts([&](uint32_t part) { b.put(peer, send_block(shape, b.rank(), peer, part)); });
  });
  for_parts([&](uint32_t part) {
    b.copy(send_block(shape, b.rank(), b.rank(), part),
           receive_block(shape, b.rank(), b.rank(), part));
  });
  for_each_peer(b, [&](uint32_t peer) {
    for_parts([&](uint32_t part) { b.receive(peer, receive_block(shape, peer, b.rank(), part)); });
  });
}

constexpr Algorithm kAlgorithms[] = {
    {"single_step", Collective::all_reduce, single_step_all_reduce, {.rank_order = true}, 90},
    {"direct", Collective::all_reduce, direct_all_reduce, {.rank_order = true}, 100},
    {"direct", Collective::reduce_scatter, direct_reduce_scatter, {.rank_order = true}, 100},
    {"direct", Collective::all_gather, direct_all_gather, {}, 100},
    {"direct", Collective::broadcast, direct_broadcast, {}, 100},
    {"direct", Collective::reduce, direct_reduce, {.rank_order = true}, 100},
    {"direct", Collective::all_to_all, direct_all_to_all, {}, 100},
    {"direct", Collective::all_gather_v, direct_all_gather, {}, 100},
    {"direct", Collective::reduce_scatter_v, direct_reduce_scatter, {.rank_order = true}, 100},
    {"direct", Collective::all_to_all_v, direct_all_to_all, {}, 100},
    {"direct", Collective::dispatch, direct_all_to_all, {}, 100},
    {"direct", Collective::combine, direct_all_to_all, {}, 100},
};
WEFT_ALGORITHMS(direct, kAlgorithms);

}  // namespace weft::collective
