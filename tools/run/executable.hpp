// SPDX-License-Identifier: BSD-3-Clause
// Which file execvp() would run, and whether ld.so loads LD_PRELOAD into it: read from the ELF
// headers, before anything is run.
#pragma once

#include <string>

#include "weft/result.hpp"

namespace weft::run {

// The file that execvp() runs for `name`: itself if it has a slash, else the first in PATH. Errors:
// not_found; permission_denied (it is there and not executable).
Result<std::string> find_program(const std::string& name);

// Whether a preloaded library has an effect in the program at `path`; of a script (#!), in its
// interpreter. Errors: not_supported with the reason and the remedy; not_found (no such
// interpreter).
Result<void> check_preload(const std::string& path);

}  // namespace weft::run
