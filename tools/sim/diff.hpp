// SPDX-License-Identifier: BSD-3-Clause
// `weft_sim diff A B`: what changed between two results, which are folders of --out. Of several
// seeds each figure has a band, and has changed only if the bands do not touch.
#pragma once

#include <cstddef>
#include <string>

namespace weft::bench {

struct DiffCommand {
  std::string before, after;  // folders
  size_t most = 10;           // rows of flows and of links
  bool json = false;
};

// Returns the program's exit code: 0 if nothing changed, 1 if something did, 2 if the results
// cannot be compared, which it says on stderr.
int command_diff(const DiffCommand& command);

}  // namespace weft::bench
