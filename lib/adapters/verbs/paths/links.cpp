// SPDX-License-Identifier: BSD-3-Clause
// readlink() and realpath() of the view, which has no symbolic links: a path is its own real path.
// That of the folder `device` is not found, as of devices that are not on a bus: programs derive a
// PCI address from it.
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstring>

#include "lib/adapters/verbs/paths/next.hpp"
#include "lib/adapters/verbs/paths/tree.hpp"

extern "C" {
// What these are with _FORTIFY_SOURCE.
ssize_t __readlink_chk(const char* path, char* to, size_t size, size_t space) noexcept;
char* __realpath_chk(const char* path, char* to, size_t space) noexcept;
}

namespace weft::paths {
namespace {

ssize_t no_link(ssize_t result, const char* path) noexcept {
  const int error = errno;
  if (result >= 0 || !is_absent(error)) return result;
  errno = find(path) ? EINVAL : error;
  return result;
}

bool is_bus_device(const char* path) noexcept {
  const char* const last = std::strrchr(path, '/');
  return std::strcmp(last, "/device") == 0;
}

char* real_path(char* result, const char* path, char* to) noexcept {
  const int error = errno;
  if (result != nullptr || !is_absent(error)) return result;
  const Node node = find(path);
  errno = error;
  if (!node || (node.kind == Kind::directory && is_bus_device(node.path))) return nullptr;
  if (to == nullptr) return ::strdup(node.path);
  std::memcpy(to, node.path, std::strlen(node.path) + 1);
  return to;
}

}  // namespace
}  // namespace weft::paths

using weft::paths::no_link;
using weft::paths::real_path;

WEFT_INTERPOSES ssize_t readlink(const char* path, char* to, size_t size) noexcept {
  return no_link(WEFT_NEXT(readlink)(path, to, size), path);
}
WEFT_INTERPOSES ssize_t readlinkat(int folder, const char* path, char* to, size_t size) noexcept {
  return no_link(WEFT_NEXT(readlinkat)(folder, path, to, size), path);
}
WEFT_INTERPOSES ssize_t __readlink_chk(const char* path, char* to, size_t size,
                                       size_t space) noexcept {
  return no_link(WEFT_NEXT(__readlink_chk)(path, to, size, space), path);
}
WEFT_INTERPOSES char* realpath(const char* path, char* to) noexcept {
  return real_path(WEFT_NEXT(realpath)(path, to), path, to);
}
WEFT_INTERPOSES char* __realpath_chk(const char* path, char* to, size_t space) noexcept {
  return real_path(WEFT_NEXT(__realpath_chk)(path, to, space), path, to);
}
WEFT_INTERPOSES char* canonicalize_file_name(const char* path) noexcept {
  return real_path(WEFT_NEXT(canonicalize_file_name)(path), path, nullptr);
}
