// SPDX-License-Identifier: BSD-3-Clause
// Ring: each rank exchanges with its two neighbours only. In n-1 steps a block travels around the
// ring and accumulates every rank's contribution (reduce-scatter), or is copied to every rank
// (all-gather). Each rank sends the minimum of S (n-1)/n bytes, at n-1 steps of latency. With
// several rings (channels) each has its part of every block, and every second ring runs backwards,
// so links are busy in both directions. Broadcast and reduce are pipelined chains.
#include <algorithm>

#include "lib/base/check.hpp"
#include "lib/collective/algorithm/shared/parts.hpp"
#include "lib/collective/plan/manifest.hpp"

namespace weft::collective {
namespace {

uint32_t right(const Builder& b) { return (b.rank() + 1) % b.shape().ranks; }
uint32_t left(const Builder& b) { return (b.rank() + b.shape().ranks - 1) % b.shape().ranks; }

struct Channel {
  uint32_t number = 0, of = 1;

  bool backwards() const { return number % 2 == 1; }
  uint32_t next(const Builder& b) const { return backwards() ? left(b) : right(b); }
  uint32_t previous(const Builder& b) const { return backwards() ? right(b) : left(b); }
  // The rank `steps` steps before this one in the direction of the channel.
  uint32_t behind(const Builder& b, uint32_t steps) const {
    const uint32_t n = b.shape().ranks;
    WEFT_DCHECK(steps <= 2 * n);
    return (b.rank() + (backwards() ? steps : 2 * n - steps)) % n;
  }
  Range part(Range block) const {
    WEFT_DCHECK(number < of);
    return collective::block(block, number, of);
  }
};

void all_reduce(Builder& b, const Channel& channel) {
  const uint32_t n = b.shape().ranks;
  const uint64_t count = b.shape().count;
  const auto part = [&](Space space, uint32_t of) {
    return channel.part(block({space, 0, count}, of, n));
  };
  for (uint32_t s = 0; s + 1 < n; ++s) {
    const Space from = s == 0 ? Space::input : Space::work;
    b.put(channel.next(b), part(from, channel.behind(b, s + 1)));
    const uint32_t incoming = channel.behind(b, s + 2);
    b.receive_reduce(channel.previous(b), part(Space::input, incoming), part(Space::work, incoming),
                     from);
  }
  b.finish(part(Space::work, b.rank()), part(Space::output, b.rank()));
  for (uint32_t s = 0; s + 1 < n; ++s) {
    b.put(channel.next(b), part(Space::output, channel.behind(b, s)));
    b.receive(channel.previous(b), part(Space::output, channel.behind(b, s + 1)));
  }
}

void reduce_scatter(Builder& b, const Channel& channel) {
  const uint32_t n = b.shape().ranks;
  uint64_t largest = 0;
  for (uint32_t r = 0; r < n; ++r)
    for (uint32_t number = 0; number < channel.of; ++number)
      largest =
          std::max(largest, collective::block(rank_block(b.shape(), r), number, channel.of).count);
  const uint64_t at = channel.part(rank_block(b.shape(), b.rank())).offset -  // of the result
                      rank_block(b.shape(), b.rank()).offset;
  Range partial = channel.part(rank_block(b.shape(), channel.behind(b, 1)));
  for (uint32_t s = 0; s + 1 < n; ++s) {
    const Space from = s == 0 ? Space::input : Space::work;
    b.put(channel.next(b), partial);
    const Range incoming = channel.part(rank_block(b.shape(), channel.behind(b, s + 2)));
    WEFT_DCHECK(incoming.count <= largest);
    partial = work((2 * channel.number + s % 2) * largest, incoming.count);
    if (s + 2 == n) partial = reduction_target(b, output(at, incoming.count), partial);
    b.receive_reduce(channel.previous(b), incoming, partial, from);
  }
  b.finish(partial, output(at, partial.count));
}

void all_gather(Builder& b, const Channel& channel) {
  const uint32_t n = b.shape().ranks;
  const Range own = rank_block(b.shape(), b.rank());
  const Range own_part = channel.part(own);
  for (uint32_t s = 0; s + 1 < n; ++s) {
    b.put(channel.next(b), s == 0 ? input(own_part.offset - own.offset, own_part.count)
                                  : channel.part(rank_block(b.shape(), channel.behind(b, s))));
    b.receive(channel.previous(b), channel.part(rank_block(b.shape(), channel.behind(b, s + 1))));
  }
}

template <void (*Emit)(Builder&, const Channel&)>
void emit_channels(Builder& b, uint32_t channels) {
  for (uint32_t number = 0; number < channels; ++number) Emit(b, {number, channels});
}

void all_reduce_over(Builder& b, uint32_t channels) {
  b.work_on_output();
  if (b.shape().ranks == 1) return single_rank_reduction(b);
  emit_channels<all_reduce>(b, channels);
}

void reduce_scatter_over(Builder& b, uint32_t channels) {
  if (b.shape().ranks == 1) return single_rank_reduction(b);
  emit_channels<reduce_scatter>(b, channels);
}

void all_gather_over(Builder& b, uint32_t channels) {
  const Range own = rank_block(b.shape(), b.rank());
  b.copy(input(0, own.count), own);
  emit_channels<all_gather>(b, channels);
}

}  // namespace

static void ring_all_reduce(Builder& b) { all_reduce_over(b, 1); }
static void ring_reduce_scatter(Builder& b) { reduce_scatter_over(b, 1); }
static void ring_all_gather(Builder& b) { all_gather_over(b, 1); }
static void two_rings_all_reduce(Builder& b) { all_reduce_over(b, 2); }
static void two_rings_reduce_scatter(Builder& b) { reduce_scatter_over(b, 2); }
static void two_rings_all_gather(Builder& b) { all_gather_over(b, 2); }

static void ring_broadcast(Builder& b) {
  const uint32_t n = b.shape().ranks;
  const uint64_t count = b.shape().count;
  const bool is_root = b.rank() == b.shape().root;
  if (!is_root) b.receive(left(b), output(0, count));
  if (right(b) != b.shape().root && n > 1)
    b.put(right(b), is_root ? input(0, count) : output(0, count));
  if (is_root) b.copy(input(0, count), output(0, count));
}

// The chain of ring_broadcast reversed: data do not wrap past the root.
static void ring_reduce(Builder& b) {
  const uint32_t n = b.shape().ranks;
  const uint64_t count = b.shape().count;
  const bool is_root = b.rank() == b.shape().root;
  if (n == 1) return single_rank_reduction(b);
  const bool is_first = right(b) == b.shape().root;  // and the root is last
  const Range target =
      is_root ? reduction_target(b, output(0, count), work(0, count)) : work(0, count);
  if (!is_first) {
    const bool sender_is_first = (right(b) + 1) % n == b.shape().root;
    b.receive_reduce(right(b), input(0, count), target,
                     sender_is_first ? Space::input : Space::work);
  }
  if (is_root) return b.finish(target, output(0, count));
  b.put(left(b), is_first ? input(0, count) : target);
}

constexpr Algorithm kAlgorithms[] = {
    {"ring", Collective::all_reduce, ring_all_reduce, {}, 10},
    {"two_rings", Collective::all_reduce, two_rings_all_reduce, {}, 20},
    {"ring", Collective::reduce_scatter, ring_reduce_scatter, {}, 10},
    {"two_rings", Collective::reduce_scatter, two_rings_reduce_scatter, {}, 20},
    {"ring", Collective::all_gather, ring_all_gather, {}, 10},
    {"two_rings", Collective::all_gather, two_rings_all_gather, {}, 20},
    {"ring", Collective::broadcast, ring_broadcast, {.passes_on = true}, 10},
    {"ring", Collective::reduce, ring_reduce, {.passes_on = true}, 10},
    {"ring", Collective::all_gather_v, ring_all_gather, {}, 10},
    {"two_rings", Collective::all_gather_v, two_rings_all_gather, {}, 20},
    {"ring", Collective::reduce_scatter_v, ring_reduce_scatter, {}, 10},
    {"two_rings", Collective::reduce_scatter_v, two_rings_reduce_scatter, {}, 20},
};
WEFT_ALGORITHMS(ring, kAlgorithms);

}  // namespace weft::collective
