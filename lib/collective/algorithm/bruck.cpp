// SPDX-License-Identifier: BSD-3-Clause
// Bruck's algorithms for any number of ranks: log2(n) steps. All-gather doubles the blocks of a
// rank in each step. All-to-all moves, in step k, all blocks whose remaining distance has bit k
// set; a block is sent up to log2(n) times, which pays off while latency dominates. After Bruck,
// Ho, Kipnis, Upfal, Weathersby (1997), "Efficient algorithms for all-to-all communications in
// multiport message-passing systems".
#include "lib/base/check.hpp"
#include "lib/collective/plan/manifest.hpp"

namespace weft::collective {

static void bruck_all_gather(Builder& b) {
  const uint32_t n = b.shape().ranks;
  const auto block_of = [&](uint32_t i) { return rank_block(b.shape(), (b.rank() + i) % n); };
  std::vector<uint64_t> starts = {0};  // block i of `work` belongs to rank + i
  for (uint32_t i = 0; i < n; ++i) starts.push_back(starts.back() + block_of(i).count);
  const auto blocks = [&](uint32_t from, uint32_t to) {
    return work(starts[from], starts[to] - starts[from]);
  };
  b.copy(input(0, starts[1]), blocks(0, 1));
  for (uint32_t distance = 1; distance < n; distance *= 2) {
    const uint32_t end = std::min(distance, n - distance);
    WEFT_DCHECK(distance + end < starts.size());
    b.put((b.rank() + n - distance) % n, blocks(0, end));
    b.receive((b.rank() + distance) % n, blocks(distance, distance + end));
  }
  for (uint32_t i = 0; i < n; ++i) b.copy(blocks(i, i + 1), block_of(i));
}

static void bruck_all_to_all(Builder& b) {
  const uint32_t n = b.shape().ranks;
  const uint64_t count = b.shape().count;
  const uint64_t packed = n * count;  // send buffer, behind the blocks in transit
  for (uint32_t i = 0; i < n; ++i)    // block i of `work` has i ranks left to travel
    b.copy(input((b.rank() + i) % n * count, count), work(i * count, count));
  for (uint32_t distance = 1; distance < n; distance *= 2) {
    uint64_t end = packed;
    for (uint32_t i = distance; i < n; ++i)
      if ((i & distance) != 0) {
        b.copy(work(i * count, count), work(end, count));
        end += count;
      }
    b.put((b.rank() + distance) % n, work(packed, end - packed));
    const uint64_t arrived = packed + n * count;
    WEFT_DCHECK(end <= arrived);  // the send buffer holds less than all blocks
    b.receive((b.rank() + n - distance) % n, work(arrived, end - packed));
    uint64_t next = arrived;
    for (uint32_t i = distance; i < n; ++i)
      if ((i & distance) != 0) {
        b.copy(work(next, count), work(i * count, count));
        next += count;
      }
  }
  for (uint32_t i = 0; i < n; ++i)
    b.copy(work(i * count, count), output((b.rank() + n - i) % n * count, count));
}

constexpr Algorithm kAlgorithms[] = {
    {"bruck", Collective::all_gather, bruck_all_gather, {}, 80},
    {"bruck", Collective::all_to_all, bruck_all_to_all, {}, 80},
    {"bruck", Collective::all_gather_v, bruck_all_gather, {}, 80},
};
WEFT_ALGORITHMS(bruck, kAlgorithms);

}  // namespace weft::collective
