// SPDX-License-Identifier: BSD-3-Clause
// PAT, parallel aggregated trees, for any number of ranks: the block of each rank goes down a
// binomial tree of its own, the farthest ranks first, and what goes the same way in a step goes
// together, as far as a piece can hold it. So small blocks take log2(n) messages, large ones are
// not kept waiting, and most bytes go to near ranks (Bruck's go far). Reduce-scatter is the same
// backwards; there blocks go one by one.
// After Jeaugey (2025), "PAT: a new algorithm for all-gather and reduce-scatter operations at
// scale".
#include <bit>

#include "lib/collective/algorithm/parts.hpp"
#include "lib/collective/plan/algorithm.hpp"

namespace weft::collective {
namespace {

// The blocks that move by `distance` in a step: of the ranks that are these multiples behind the
// one that has them.
std::vector<uint32_t> offsets(uint32_t ranks, uint32_t distance) {
  std::vector<uint32_t> found;
  for (uint32_t j = 0; j + distance < ranks; j += 2 * distance) found.push_back(j);
  return found;
}

uint32_t behind(const Builder& b, uint64_t distance) {
  const uint64_t n = b.shape().ranks;
  return static_cast<uint32_t>((b.rank() + 2 * n - distance) % n);
}

// Blocks cut into messages of at most a piece, or of one block.
std::vector<std::vector<Range>> messages(const Builder& b, const std::vector<Range>& blocks) {
  const uint64_t most = b.shape().piece == 0 ? UINT64_MAX : b.shape().piece;
  std::vector<std::vector<Range>> cut;
  uint64_t filled = 0;
  for (const Range& block : blocks) {
    if (cut.empty() || filled + block.count > most) {
      cut.emplace_back();
      filled = 0;
    }
    cut.back().push_back(block);
    filled += block.count;
  }
  return cut;
}

uint64_t total(const std::vector<Range>& blocks) {
  uint64_t count = 0;
  for (const Range& block : blocks) count += block.count;
  return count;
}

// Several blocks go packed into `work` from `at` on, which moves past them.
void put_together(Builder& b, uint32_t peer, const std::vector<Range>& blocks, uint64_t& at) {
  if (blocks.size() == 1) return b.put(peer, blocks[0]);
  const Range packed = work(at, total(blocks));
  for (const Range& block : blocks) {
    b.copy(block, work(at, block.count));
    at += block.count;
  }
  b.put(peer, packed);
}

void receive_together(Builder& b, uint32_t peer, const std::vector<Range>& blocks, uint64_t& at) {
  if (blocks.size() == 1) return b.receive(peer, blocks[0]);
  b.receive(peer, work(at, total(blocks)));
  for (const Range& block : blocks) {
    b.copy(work(at, block.count), block);
    at += block.count;
  }
}

}  // namespace

void pat_all_gather(Builder& b) {
  const uint32_t n = b.shape().ranks;
  const Range own = share(b.shape(), b.rank());
  b.copy(input(0, own.count), own);
  uint64_t at = 0;
  for (uint32_t distance = std::bit_ceil(n) / 2; distance > 0; distance /= 2) {
    std::vector<Range> given, taken;
    for (const uint32_t j : offsets(n, distance)) {
      given.push_back(share(b.shape(), behind(b, j)));
      taken.push_back(share(b.shape(), behind(b, uint64_t{j} + distance)));
    }
    for (const std::vector<Range>& blocks : messages(b, given))
      put_together(b, (b.rank() + distance) % n, blocks, at);
    for (const std::vector<Range>& blocks : messages(b, taken))
      receive_together(b, behind(b, distance), blocks, at);
  }
}

void pat_reduce_scatter(Builder& b) {
  const uint32_t n = b.shape().ranks;
  if (n == 1) return alone(b);
  // What the rank `offset` ahead of a block's owner has of it: its input, until it was given some.
  const auto space = [&](uint64_t offset, uint32_t distance) {
    return distance == 1 || offset + 1 >= n ? Space::input : Space::work;
  };
  const auto part = [&](uint64_t offset, Space where) {
    const Range block = share(b.shape(), behind(b, offset));
    return Range{where, block.offset, block.count};
  };
  for (uint32_t distance = 1; distance < n; distance *= 2) {
    for (const uint32_t j : offsets(n, distance))
      b.put(behind(b, distance), part(j + distance, space(j + distance, distance)));
    for (const uint32_t j : offsets(n, distance))
      b.receive_reduce((b.rank() + distance) % n, part(j, space(j, distance)), part(j, Space::work),
                       space(j + distance, distance));
  }
  const Range own = share(b.shape(), b.rank());
  b.finish(work(own.offset, own.count), output(0, own.count));
}

}  // namespace weft::collective
