// SPDX-License-Identifier: BSD-3-Clause
// The random choice of experts, reproducible on every rank; and for simulated networks the shape of
// dispatch and combine, their lower bound, and the shape of the sums that cross racks after a
// combine.
#pragma once

#include <vector>

#include "lib/collective/model/flow_model.hpp"
#include "tools/coll/options.hpp"

namespace weft::bench {

// Errors: invalid_argument if --choices exceeds the number of experts.
Result<void> check_experts(const CollOptions& options, uint32_t ranks);

// `choices` distinct experts for each token of a rank, uniformly distributed, token by token.
std::vector<uint32_t> experts_of(const CollOptions& options, uint32_t ranks, uint32_t rank,
                                 uint64_t tokens);

// `tokens` per chip.
collective::Shape shape_of_experts(const CollOptions& options, const collective::Topology& topology,
                                   uint64_t tokens);
// A token crosses a cut once if any of its experts is on the other side; its sum crosses back once.
collective::Bound bound_of_experts(const CollOptions& options, const collective::Topology& topology,
                                   uint64_t tokens);
// One row from each mirror rank for every token that has an expert in its rack.
collective::Shape rack_sums_shape(const collective::Shape& combine);

}  // namespace weft::bench
