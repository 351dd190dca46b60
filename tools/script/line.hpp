// SPDX-License-Identifier: BSD-3-Clause
// One line of a script, by its words.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/script/step.hpp"

namespace weft::script {

// `i`: the turn of the innermost repeat, or -1. Throws Complaint.
Action action(const std::vector<std::string>& words, int64_t i);

}  // namespace weft::script
