// SPDX-License-Identifier: BSD-3-Clause
// `weft_sim keys`: every key with default, unit and meaning, or of some controllers each parameter
// with the paper and section that its default is from and what differs. All of it is in the tables
// of lib/sim/scheme/parameters.cpp and of the controllers.
#pragma once

#include <string>
#include <vector>

namespace weft::bench {

// `controllers`: names, or paths of shared objects; none: all keys. Returns the exit code.
int command_keys(const std::vector<std::string>& controllers);

}  // namespace weft::bench
