// SPDX-License-Identifier: BSD-3-Clause
// Symmetric schedules: if all programs are the same except for the peers' numbers, and all ranks'
// puts load the network equally, then all ranks are at the same step at any time. One rank and one
// link of each group of equally loaded links then predict thousands of chips. The symmetry is
// checked, not assumed: every program is generated and compared, one at a time.
#pragma once

#include <optional>

#include "lib/collective/model/flow_model.hpp"

namespace weft::collective {

// Empty if some rank or link differs. Each step counts the bytes of the rank with the largest
// block: blocks may differ by an element. `element`, `accumulator`: bytes.
std::optional<Prediction> predict_symmetric(const Algorithm& algorithm, const Shape& shape,
                                            double element, double accumulator,
                                            const Topology& topology, Routes& routes);

}  // namespace weft::collective
