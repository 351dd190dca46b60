// SPDX-License-Identifier: BSD-3-Clause
// The steps of a rank as sends, receives and local steps.
#pragma once

#include "lib/collective/msccl/order.hpp"

namespace weft::collective {

// Fills what `order` has of the rank, in the order of blocks. Errors: invalid_argument, which names
// block, step and line.
Result<void> divide(const MscclPlan& plan, uint32_t rank, MscclOrder& order);

}  // namespace weft::collective
