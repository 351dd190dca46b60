// SPDX-License-Identifier: BSD-3-Clause
// Which experts tokens go to, the same for all who ask; and what follows for networks that are not
// here: the shape of dispatch and combine as all ranks together know it, what no schedule of them
// can beat, and the sums that cross after a combine inside racks.
#pragma once

#include <vector>

#include "lib/collective/model/flow_model.hpp"
#include "tools/coll/options.hpp"

namespace weft::bench {

// Errors: invalid_argument, if a token is to go to more experts than there are.
Result<void> enough_experts(const CollOptions& options, uint32_t ranks);

// Of the tokens of a rank, one after the other: `choices` different experts each, all alike likely.
std::vector<uint32_t> experts_of(const CollOptions& options, uint32_t ranks, uint32_t rank,
                                 uint64_t tokens);

// So many tokens of each chip.
collective::Shape shape_of_experts(const CollOptions& options, const collective::Topology& topology,
                                   uint64_t tokens);
// A token crosses a cut once if any of its experts is on the other side; its sum comes back once.
collective::Bound bound_of_experts(const CollOptions& options, const collective::Topology& topology,
                                   uint64_t tokens);
// One row from each mirror rank for every token that has an expert in its rack.
collective::Shape sums_across(const collective::Shape& combine);

}  // namespace weft::bench
