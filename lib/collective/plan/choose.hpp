// SPDX-License-Identifier: BSD-3-Clause
// The default algorithm of a call. It depends on nothing but the call, so all ranks choose the
// same one.
#pragma once

#include "lib/collective/plan/algorithm.hpp"
#include "weft/collective.hpp"

namespace weft::collective {

// `bytes` is the size of the larger buffer; `exact`: accumulators are no wider than elements.
const Algorithm& choose(Collective collective, uint32_t ranks, uint64_t bytes, bool exact,
                        Numerics numerics);

}  // namespace weft::collective
