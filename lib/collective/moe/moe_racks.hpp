// SPDX-License-Identifier: BSD-3-Clause
// Ranks in racks, and what they send to their mirror ranks, those with the same position in other
// racks: a number for each row that goes to the mirror's rack in a dispatch.
#pragma once

#include "lib/collective/moe/moe.hpp"

namespace weft::collective {

struct Racks {
  const Team& team;
  const RoutingState& routing;

  uint32_t per_rack() const { return team.ranks() / routing.racks; }
  uint32_t of(uint32_t rank) const { return rank / per_rack(); }
  uint32_t own() const { return of(team.rank()); }
  uint32_t mirror(uint32_t rank, uint32_t rack) const {
    return rack * per_rack() + rank % per_rack();
  }
  // Of this rank.
  uint32_t mirror(uint32_t rack) const { return mirror(team.rank(), rack); }
  // Rows that `from` sends before those for a rack.
  uint64_t before(uint32_t from, uint32_t rack) const;
  uint64_t rows(uint32_t from, uint32_t rack) const {
    return before(from, rack + 1) - before(from, rack);
  }
  // The first row of each token, of a rank whose rows are known.
  std::vector<uint64_t> distinct(uint32_t from, uint32_t rack) const;
};

// A number for each row, sent to the mirrors and received from them.
struct MirrorNumbers {
  std::vector<uint32_t> out, in;
};
// Finds the rows of this rank for one rack that are the same token.
void find_equal_rows(const Team& team, RoutingState& routing);
// The call that sends the mirror ranks `by_row`, one number for each row of this rank; its memory
// is in `numbers`.
Arguments make_mirror_exchange(const Team& team, const RoutingState& routing,
                               std::span<const uint32_t> by_row, MirrorNumbers& numbers);
// Stores which rows of the mirrors are equal. False: what they sent is invalid.
bool read_equal_rows(const Team& team, const MirrorNumbers& numbers, RoutingState& routing);

}  // namespace weft::collective
