// SPDX-License-Identifier: BSD-3-Clause
// Parses one line of a script.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/script/step.hpp"

namespace weft::script {

// `i`: the iteration of the innermost repeat, or -1. Throws ScriptError.
Action action(const std::vector<std::string>& words, int64_t i);

}  // namespace weft::script
