// SPDX-License-Identifier: BSD-3-Clause
// Which algorithm a call gets if it does not say. A function of the call alone, so that all ranks
// choose the same.
#pragma once

#include "lib/collective/plan/algorithm.hpp"
#include "weft/collective.hpp"

namespace weft::collective {

// `bytes` is the size of the larger buffer; `exact`: partial sums are no wider than elements.
const Algorithm& choose(Collective collective, uint32_t ranks, uint64_t bytes, bool exact,
                        Numerics numerics);

}  // namespace weft::collective
