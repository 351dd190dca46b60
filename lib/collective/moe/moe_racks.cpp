// SPDX-License-Identifier: BSD-3-Clause
// Which rows of a dispatch are the same token, and how the forwarding ranks learn it: each rank
// sends its mirror rank in every other rack, for each row that goes there, the first row that
// equals it.
#include "lib/collective/moe/moe_racks.hpp"

namespace weft::collective {

uint64_t Racks::before(uint32_t from, uint32_t rack) const {
  const uint64_t experts = experts_of(team, routing);
  const uint64_t end = uint64_t{rack} * per_rack() * routing.experts_per_rank;
  uint64_t rows = 0;
  for (uint64_t e = 0; e < end; ++e) rows += routing.accepted[from * experts + e];
  return rows;
}

std::vector<uint64_t> Racks::distinct(uint32_t from, uint32_t rack) const {
  std::vector<uint64_t> firsts;
  const uint64_t end = before(from, rack + 1);
  for (uint64_t row = before(from, rack); row < end; ++row)
    if (routing.same[from][row] == row) firsts.push_back(row);
  return firsts;
}

void find_equal_rows(const Team& team, RoutingState& routing) {
  const uint32_t rank = team.rank();
  const Racks racks{team, routing};
  const uint64_t all = racks.before(rank, routing.racks);
  constexpr uint32_t kNone = UINT32_MAX;
  std::vector<uint32_t> token_of(all);
  for (size_t i = 0; i < routing.row_of.size(); ++i)
    if (routing.row_of[i] != kNoRow)
      token_of[routing.row_of[i]] = static_cast<uint32_t>(i / routing.choices);
  routing.same.assign(team.ranks(), {});
  std::vector<uint32_t>& same = routing.same[rank];
  for (uint32_t rack = 0; rack < routing.racks; ++rack) {
    std::vector<uint32_t> first(routing.row_of.size() / routing.choices, kNone);
    const uint64_t end = racks.before(rank, rack + 1);
    for (uint64_t row = racks.before(rank, rack); row < end; ++row) {
      uint32_t& known = first[token_of[row]];
      if (known == kNone) known = static_cast<uint32_t>(row);
      same.push_back(known);
    }
  }
}

Arguments make_mirror_exchange(const Team& team, const RoutingState& routing,
                               std::span<const uint32_t> by_row, MirrorNumbers& numbers) {
  const uint32_t rank = team.rank(), ranks = team.ranks();
  const Racks racks{team, routing};
  Arguments call{.collective = Collective::all_to_all_v, .type = DataType::int32};
  call.blocks.counts.assign(size_t{ranks} * ranks, 0);
  for (uint32_t from = 0; from < ranks; ++from)
    for (uint32_t rack = 0; rack < routing.racks; ++rack)
      if (rack != racks.of(from))
        call.blocks.counts[size_t{from} * ranks + racks.mirror(from, rack)] =
            racks.rows(from, rack);
  for (uint32_t rack = 0; rack < routing.racks; ++rack) {
    if (rack == racks.of(rank)) continue;
    const std::span<const uint32_t> sent =
        by_row.subspan(racks.before(rank, rack), racks.rows(rank, rack));
    numbers.out.insert(numbers.out.end(), sent.begin(), sent.end());
    numbers.in.resize(numbers.in.size() + racks.rows(racks.mirror(rank, rack), racks.of(rank)));
  }
  call.input = numbers.out.data();
  call.output = numbers.in.data();
  return call;
}

bool read_equal_rows(const Team& team, const MirrorNumbers& numbers, RoutingState& routing) {
  const uint32_t rank = team.rank();
  const Racks racks{team, routing};
  const uint32_t own = racks.of(rank);
  size_t next = 0;
  for (uint32_t rack = 0; rack < routing.racks; ++rack) {
    if (rack == own) continue;
    const uint32_t from = racks.mirror(rank, rack);
    const uint64_t begin = racks.before(from, own), end = racks.before(from, own + 1);
    std::vector<uint32_t>& same = routing.same[from];
    same.assign(racks.before(from, routing.racks), 0);
    for (uint64_t row = begin; row < end; ++row) {
      same[row] = numbers.in[next++];
      if (same[row] < begin || same[row] > row || same[same[row]] != same[row]) return false;
    }
  }
  return true;
}

}  // namespace weft::collective
