// SPDX-License-Identifier: BSD-3-Clause
// Ranks in racks, and what they tell their mirror ranks, those of the same place in other racks: a
// number for each row that goes to the mirror's rack in a dispatch.
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
  // Rows that `from` gives before those for a rack.
  uint64_t before(uint32_t from, uint32_t rack) const;
  uint64_t rows(uint32_t from, uint32_t rack) const {
    return before(from, rack + 1) - before(from, rack);
  }
  // Those of them that are the first of their kind, of a rank whose rows are known.
  std::vector<uint64_t> distinct(uint32_t from, uint32_t rack) const;
};

// A number for each row, to the mirrors and from them.
struct Names {
  std::vector<uint32_t> out, in;
};
// Finds which rows of this rank's choices are equal, for the same rack.
void find_equal_rows(const Team& team, RoutingState& routing);
// The call that tells the mirror ranks `by_row`, one number for each of our rows; its memory is in
// `names`.
Arguments tell_mirrors(const Team& team, const RoutingState& routing,
                       std::span<const uint32_t> by_row, Names& names);
// What they say about which of their rows are equal. False: nonsense.
bool take_names(const Team& team, const Names& names, RoutingState& routing);

}  // namespace weft::collective
