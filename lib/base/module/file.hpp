// SPDX-License-Identifier: BSD-3-Clause
// Whether the file of a module is whole. dlopen() maps what the program headers name; a page beyond
// the end of a truncated file is a SIGBUS there, and a FIFO is waited for.
#pragma once

#include <string>

#include "weft/result.hpp"

namespace weft::base {

// An error if `path` is no regular file, cannot be read, or ends before its last segment. What else
// may be wrong dlopen() says.
Result<void> check_module_file(const std::string& path);

}  // namespace weft::base
