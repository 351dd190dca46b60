// SPDX-License-Identifier: BSD-3-Clause
// Ring: each rank talks to its two neighbours only. In n-1 steps a block travels around and takes
// up every rank's contribution (reduce-scatter), or is left with every rank (all-gather). Each rank
// sends the least there can be, S (n-1)/n; the price is n-1 steps of latency. Broadcast and reduce
// are a chain in pieces.
#include <algorithm>

#include "lib/collective/algorithm.hpp"
#include "lib/collective/algorithm/parts.hpp"

namespace weft::collective {
namespace {

uint32_t right(const Builder& b) { return (b.rank() + 1) % b.shape().ranks; }
uint32_t left(const Builder& b) { return (b.rank() + b.shape().ranks - 1) % b.shape().ranks; }
// rank - steps, around the ring.
uint32_t behind(const Builder& b, uint32_t steps) {
  return (b.rank() + 2 * b.shape().ranks - steps) % b.shape().ranks;
}

}  // namespace

void ring_all_reduce(Builder& b) {
  const uint32_t n = b.shape().ranks;
  const uint64_t count = b.shape().count;
  b.work_on_output();
  if (n == 1) return alone(b);
  for (uint32_t s = 0; s + 1 < n; ++s) {
    const Space from = s == 0 ? Space::input : Space::work;
    b.put(right(b), block({from, 0, count}, behind(b, s + 1), n));
    const uint32_t incoming = behind(b, s + 2);
    b.receive_reduce(left(b), block(input(0, count), incoming, n),
                     block(work(0, count), incoming, n), from);
  }
  b.finish(block(work(0, count), b.rank(), n), block(output(0, count), b.rank(), n));
  for (uint32_t s = 0; s + 1 < n; ++s) {
    b.put(right(b), block(output(0, count), behind(b, s), n));
    b.receive(left(b), block(output(0, count), behind(b, s + 1), n));
  }
}

void ring_reduce_scatter(Builder& b) {
  const uint32_t n = b.shape().ranks;
  if (n == 1) return alone(b);
  uint64_t largest = 0;
  for (uint32_t r = 0; r < n; ++r) largest = std::max(largest, share(b.shape(), r).count);
  Range partial = share(b.shape(), behind(b, 1));
  for (uint32_t s = 0; s + 1 < n; ++s) {
    const Space from = s == 0 ? Space::input : Space::work;
    b.put(right(b), partial);
    const Range incoming = share(b.shape(), behind(b, s + 2));
    const bool last = s + 2 == n;
    partial = last ? result(b, output(0, incoming.count), work(0, incoming.count))
                   : work(s % 2 * largest, incoming.count);
    b.receive_reduce(left(b), incoming, partial, from);
  }
  b.finish(partial, output(0, partial.count));
}

void ring_all_gather(Builder& b) {
  const uint32_t n = b.shape().ranks;
  const Range own = share(b.shape(), b.rank());
  b.copy(input(0, own.count), own);
  for (uint32_t s = 0; s + 1 < n; ++s) {
    b.put(right(b), s == 0 ? input(0, own.count) : share(b.shape(), behind(b, s)));
    b.receive(left(b), share(b.shape(), behind(b, s + 1)));
  }
}

void ring_broadcast(Builder& b) {
  const uint32_t n = b.shape().ranks;
  const uint64_t count = b.shape().count;
  const bool is_root = b.rank() == b.shape().root;
  if (!is_root) b.receive(left(b), output(0, count));
  if (right(b) != b.shape().root && n > 1)
    b.put(right(b), is_root ? input(0, count) : output(0, count));
  if (is_root) b.copy(input(0, count), output(0, count));
}

void ring_reduce(Builder& b) {
  const uint32_t n = b.shape().ranks;
  const uint64_t count = b.shape().count;
  const bool is_root = b.rank() == b.shape().root;
  if (n == 1) return alone(b);
  const bool is_first = left(b) == b.shape().root;  // and the root is last
  const Range target = is_root ? result(b, output(0, count), work(0, count)) : work(0, count);
  if (!is_first || is_root) {
    const bool left_is_first = (left(b) + b.shape().ranks - 1) % n == b.shape().root;
    b.receive_reduce(left(b), input(0, count), target, left_is_first ? Space::input : Space::work);
  }
  if (is_root) return b.finish(target, output(0, count));
  b.put(right(b), is_first ? input(0, count) : target);
}

}  // namespace weft::collective
