// SPDX-License-Identifier: BSD-3-Clause
// Ranks that are alike: where all programs are the same but for the names of peers, and all ranks'
// puts load the network in the same way, all ranks are at the same step at any time. Then one rank
// stands for all, links that carry the same stand for each other, and thousands of chips are
// predicted like one. That it is so is not assumed but seen: all programs are looked at, one after
// the other, and none is kept.
#pragma once

#include <optional>

#include "lib/collective/model/flow_model.hpp"

namespace weft::collective {

// Nothing, if some rank or link differs. A step takes as many bytes as that of the rank that has
// most: blocks may differ by an element.
std::optional<Prediction> predict_alike(const Algorithm& algorithm, const Shape& shape,
                                        double element, double accumulator,
                                        const Topology& topology, Routes& routes);

}  // namespace weft::collective
