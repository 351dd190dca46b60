// SPDX-License-Identifier: BSD-3-Clause
// Where the scenarios, workloads and networks are that weft brings along: a program finds them by
// name from any folder, installed or in its build tree.
#pragma once

#include <string>
#include <vector>

namespace weft::base {

// The folders that are searched, in order: those of WEFT_SCENARIOS (separated by colons),
// share/weft/scenarios of the prefix that the library or program is installed in, and scenarios/ of
// the tree that it was built in.
std::vector<std::string> scenario_folders();

// The path of `name`, relative to one of these folders ("workloads/cdf_websearch.csv"), or "".
std::string scenario_file(const std::string& name);

// The same for what a file names: relative to the folder of `file` first, then as above. Without
// any such file, the path beside `file`, for the message of the one that opens it.
std::string file_beside(const std::string& file, const std::string& name);

}  // namespace weft::base
