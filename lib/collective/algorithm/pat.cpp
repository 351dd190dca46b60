// SPDX-License-Identifier: BSD-3-Clause
// PAT, parallel aggregated trees, for any number of ranks: each rank's block is distributed over
// its own binomial tree, the farthest ranks first, and blocks with the same destination in a step
// share a message, up to the size of a piece. So small blocks take log2(n) messages, large ones are
// pipelined, and most bytes go to near ranks (in Bruck's algorithm to far ones). Reduce-scatter is
// the reverse; there every block is a message.
// After Jeaugey (2025), "PAT: a new algorithm for all-gather and reduce-scatter operations at
// scale".
#include <bit>

#include "lib/base/check.hpp"
#include "lib/collective/algorithm/shared/parts.hpp"
#include "lib/collective/plan/manifest.hpp"

namespace weft::collective {
namespace {

// The blocks that move by `distance` in a step, as distances from their owner to the rank that
// sends them.
std::vector<uint32_t> moving_offsets(uint32_t ranks, uint32_t distance) {
  std::vector<uint32_t> found;
  for (uint32_t j = 0; j + distance < ranks; j += 2 * distance) found.push_back(j);
  return found;
}

uint32_t rank_behind(const Builder& b, uint64_t distance) {
  const uint64_t n = b.shape().ranks;
  WEFT_DCHECK(distance < 2 * n);
  return static_cast<uint32_t>((b.rank() + 2 * n - distance) % n);
}

// Groups blocks into messages of at most a piece, or of one block.
std::vector<std::vector<Range>> split_into_messages(const Builder& b,
                                                    const std::vector<Range>& blocks) {
  const uint64_t most = b.shape().piece == 0 ? UINT64_MAX : b.shape().piece;
  std::vector<std::vector<Range>> cut;
  uint64_t filled = 0;
  for (const Range& block : blocks) {
    if (cut.empty() || filled + block.count > most) {
      cut.emplace_back();
      filled = 0;
    }
    WEFT_DCHECK(cut.back().empty() || filled + block.count <= most);
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

// Several blocks are packed into `work` at offset `at`, which advances.
void put_packed(Builder& b, uint32_t peer, const std::vector<Range>& blocks, uint64_t& at) {
  if (blocks.size() == 1) return b.put(peer, blocks[0]);
  const Range packed = work(at, total(blocks));
  for (const Range& block : blocks) {
    b.copy(block, work(at, block.count));
    at += block.count;
  }
  b.put(peer, packed);
}

void receive_packed(Builder& b, uint32_t peer, const std::vector<Range>& blocks, uint64_t& at) {
  if (blocks.size() == 1) return b.receive(peer, blocks[0]);
  b.receive(peer, work(at, total(blocks)));
  for (const Range& block : blocks) {
    b.copy(work(at, block.count), block);
    at += block.count;
  }
}

}  // namespace

static void pat_all_gather(Builder& b) {
  const uint32_t n = b.shape().ranks;
  const Range own = rank_block(b.shape(), b.rank());
  b.copy(input(0, own.count), own);
  uint64_t at = 0;
  for (uint32_t distance = std::bit_ceil(n) / 2; distance > 0; distance /= 2) {
    std::vector<Range> sent, received;
    for (const uint32_t j : moving_offsets(n, distance)) {
      sent.push_back(rank_block(b.shape(), rank_behind(b, j)));
      received.push_back(rank_block(b.shape(), rank_behind(b, uint64_t{j} + distance)));
    }
    for (const std::vector<Range>& blocks : split_into_messages(b, sent))
      put_packed(b, (b.rank() + distance) % n, blocks, at);
    for (const std::vector<Range>& blocks : split_into_messages(b, received))
      receive_packed(b, rank_behind(b, distance), blocks, at);
  }
}

static void pat_reduce_scatter(Builder& b) {
  const uint32_t n = b.shape().ranks;
  if (n == 1) return single_rank_reduction(b);
  // The space of the partial sum of a block on the rank `offset` ahead of its owner: the input
  // until it has received a contribution.
  const auto space = [&](uint64_t offset, uint32_t distance) {
    return distance == 1 || offset + 1 >= n ? Space::input : Space::work;
  };
  const auto part = [&](uint64_t offset, Space where) {
    const Range block = rank_block(b.shape(), rank_behind(b, offset));
    return Range{where, block.offset, block.count};
  };
  for (uint32_t distance = 1; distance < n; distance *= 2) {
    for (const uint32_t j : moving_offsets(n, distance))
      b.put(rank_behind(b, distance), part(j + distance, space(j + distance, distance)));
    for (const uint32_t j : moving_offsets(n, distance))
      b.receive_reduce((b.rank() + distance) % n, part(j, space(j, distance)), part(j, Space::work),
                       space(j + distance, distance));
  }
  const Range own = rank_block(b.shape(), b.rank());
  b.finish(work(own.offset, own.count), output(0, own.count));
}

constexpr Algorithm kAlgorithms[] = {
    {"pat", Collective::reduce_scatter, pat_reduce_scatter, {}, 150},
    {"pat", Collective::all_gather, pat_all_gather, {}, 150},
    {"pat", Collective::all_gather_v, pat_all_gather, {}, 150},
    {"pat", Collective::reduce_scatter_v, pat_reduce_scatter, {}, 150},
};
WEFT_ALGORITHMS(pat, kAlgorithms);

}  // namespace weft::collective
