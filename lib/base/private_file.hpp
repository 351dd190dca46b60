// SPDX-License-Identifier: BSD-3-Clause
// Files that hold what must not be read by others: memory, keys, addresses of peers.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "weft/result.hpp"

namespace weft::base {

struct CloseFile {
  void operator()(std::FILE* file) const noexcept { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

// Opens `path` for writing, with mode 0600 and close-on-exec. Symbolic links are not followed. A
// file that exists is emptied and gets the mode, if it is a regular file of the caller's with one
// name; a pipe or a character device (/dev/null) is written as it is. Errors, with `what` ("capture
// file"), the path and the reason: permission_denied for a symbolic link, a file of another user or
// with several names; not_found, no_memory, io_error.
Result<File> create_private_file(const std::string& path, std::string_view what);

}  // namespace weft::base
