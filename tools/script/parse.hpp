// SPDX-License-Identifier: BSD-3-Clause
// Parses the text of a script into steps.
#pragma once

#include <string>
#include <string_view>

#include "tools/script/step.hpp"
#include "weft/result.hpp"

namespace weft::script {

// Errors: invalid_argument, "FILE:LINE: the error and what is allowed there".
Result<Script> parse(std::string name, std::string_view text);

// The allowed first words of a line, for messages.
std::string_view line_list();

}  // namespace weft::script
