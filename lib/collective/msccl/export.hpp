// SPDX-License-Identifier: BSD-3-Clause
// A schedule of ours as a plan of MSCCL.
#pragma once

#include "lib/collective/msccl/plan.hpp"
#include "lib/collective/plan/schedule.hpp"

namespace weft::collective {

// The plan has a tb for each peer that a rank sends to, one for each that it receives from, and one
// for local steps. Errors: not_supported (what MSCCL has no word for).
Result<MscclPlan> msccl_plan_of(const std::string& name, const Shape& shape,
                                const std::vector<Program>& programs);

}  // namespace weft::collective
