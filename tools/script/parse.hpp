// SPDX-License-Identifier: BSD-3-Clause
// From the text of a script to its steps.
#pragma once

#include <string>
#include <string_view>

#include "tools/script/step.hpp"
#include "weft/result.hpp"

namespace weft::script {

// Errors: invalid_argument, "FILE:LINE: what is wrong and what may stand there".
Result<Script> parse(std::string name, std::string_view text);

// What a line may begin with, for people.
std::string_view line_list();

}  // namespace weft::script
