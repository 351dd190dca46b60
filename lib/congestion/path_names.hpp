// SPDX-License-Identifier: BSD-3-Clause
// Path policies by name: the built-in ones, and those of shared objects by their path
// (weft/path_policy.hpp).
#pragma once

#include <string>
#include <string_view>

#include "lib/congestion/path_policy.hpp"
#include "weft/result.hpp"

namespace weft::congestion {

// "mixed", or "./mine.so", which is loaded. An unknown name is an error that lists the valid ones.
Result<PathChoice> find_path_choice(std::string_view name);

// "mixed", or the name that a loaded policy has.
std::string path_choice_name(PathChoice choice);

// The kind of a loaded policy; null for a built-in one.
const PathKind* loaded_path_kind(PathChoice choice);

}  // namespace weft::congestion
