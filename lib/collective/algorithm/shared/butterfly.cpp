// SPDX-License-Identifier: BSD-3-Clause
// Reduce-scatter and all-gather over any butterfly.
#include "lib/collective/algorithm/shared/butterfly.hpp"

#include <algorithm>
#include <bit>

#include "lib/base/check.hpp"

namespace weft::collective {
namespace {

// The blocks of these ranks by offset, adjacent ones merged.
std::vector<Range> ranges_of(const std::vector<uint32_t>& ranks, const BlockOf& block_of,
                             Space space) {
  std::vector<Range> blocks;
  for (const uint32_t rank : ranks) {
    const Range block = block_of(rank);
    if (block.count > 0) blocks.push_back({space, block.offset, block.count});
  }
  std::sort(blocks.begin(), blocks.end(),
            [](const Range& a, const Range& b) { return a.offset < b.offset; });
  std::vector<Range> merged;
  for (const Range& block : blocks) {
    if (!merged.empty() && merged.back().end() == block.offset)
      merged.back().count += block.count;
    else
      merged.push_back(block);
  }
  return merged;
}

}  // namespace

uint32_t Butterfly::steps() const {
  WEFT_DCHECK(std::has_single_bit(ranks));
  return static_cast<uint32_t>(std::countr_zero(ranks));
}

std::vector<uint32_t> Butterfly::reach(uint32_t rank, uint32_t step) const {
  std::vector<uint32_t> reached = {rank};
  if (step >= steps()) return reached;
  reached = reach(rank, step + 1);
  const std::vector<uint32_t> theirs = reach(partner(rank, step), step + 1);
  reached.insert(reached.end(), theirs.begin(), theirs.end());
  WEFT_DCHECK(reached.size() == size_t{1} << (steps() - step));
  return reached;
}

uint32_t negabinary_partner(uint32_t place, uint32_t step, uint32_t size, bool mirrored) {
  WEFT_DCHECK(std::has_single_bit(size) && place < size && (1U << step) < size);
  int64_t distance = 0, power = 1;
  for (uint32_t i = 0; i <= step; ++i, power *= -2) distance += power;
  if ((place % 2 == 1) != mirrored) distance = -distance;
  const int64_t n = size;
  return static_cast<uint32_t>(((place + distance) % n + n) % n);
}

void butterfly_scatter(Builder& b, const Butterfly& butterfly, uint32_t step,
                       const BlockOf& block_of) {
  const Space space = step == 0 ? Space::input : Space::work;
  const uint32_t peer = butterfly.partner(b.rank(), step);
  WEFT_DCHECK(step < butterfly.steps() && butterfly.partner(peer, step) == b.rank());
  for (const Range& sent : ranges_of(butterfly.reach(peer, step + 1), block_of, space))
    b.put(peer, sent);
  for (const Range& kept : ranges_of(butterfly.reach(b.rank(), step + 1), block_of, space))
    b.receive_reduce(peer, kept, {Space::work, kept.offset, kept.count}, space);
}

void butterfly_gather(Builder& b, const Butterfly& butterfly, uint32_t step,
                      const BlockOf& block_of) {
  const uint32_t peer = butterfly.partner(b.rank(), step);
  WEFT_DCHECK(step < butterfly.steps() && butterfly.partner(peer, step) == b.rank());
  for (const Range& held : ranges_of(butterfly.reach(b.rank(), step + 1), block_of, Space::output))
    b.put(peer, held);
  for (const Range& received : ranges_of(butterfly.reach(peer, step + 1), block_of, Space::output))
    b.receive(peer, received);
}

}  // namespace weft::collective
