// SPDX-License-Identifier: BSD-3-Clause
// open() and fopen(): a file of the view is an anonymous file in memory that holds its text.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "lib/adapters/verbs/paths/next.hpp"
#include "lib/adapters/verbs/paths/tree.hpp"

extern "C" {
// What open() is with _FORTIFY_SOURCE.
int __open_2(const char* path, int flags);
int __open64_2(const char* path, int flags);
int __openat_2(int folder, const char* path, int flags);
int __openat64_2(int folder, const char* path, int flags);
}

namespace weft::paths {
namespace {

int fail(int error) noexcept {
  errno = error;
  return -1;
}

int open_text(const Text& text, int flags) noexcept {
  const int fd = ::memfd_create("weft-paths", (flags & O_CLOEXEC) ? MFD_CLOEXEC : 0);
  if (fd < 0) return -1;
  size_t written = 0;
  while (written < text.length) {
    const ssize_t step = ::write(fd, text.bytes + written, text.length - written);
    if (step <= 0) {
      const int error = errno;
      ::close(fd);
      return fail(error);
    }
    written += static_cast<size_t>(step);
  }
  ::lseek(fd, 0, SEEK_SET);
  return fd;
}

// What open() returned, or else a file of the view. `path` has been read by the call that failed.
int opened(int fd, const char* path, int flags) noexcept {
  const int error = errno;
  if (fd >= 0 || !is_absent(error)) return fd;
  const Node node = find(path);
  errno = error;
  if (!node) return fd;
  if (node.kind == Kind::device) return fail(ENXIO);
  const bool writes = (flags & O_ACCMODE) != O_RDONLY;
  if (node.kind == Kind::directory) return fail(writes ? EISDIR : EOPNOTSUPP);
  if (flags & O_DIRECTORY) return fail(ENOTDIR);
  if (writes) return fail(EACCES);
  Text text;
  if (const int failed = node.row->write(node.place, text)) return fail(failed);
  return open_text(text, flags);
}

FILE* opened(FILE* file, const char* path, const char* mode) noexcept {
  const int error = errno;
  if (file != nullptr || !is_absent(error)) return file;
  const bool reads = mode[0] == 'r' && std::strchr(mode, '+') == nullptr;
  const int fd =
      opened(-1, path, (reads ? O_RDONLY : O_RDWR) | (std::strchr(mode, 'e') ? O_CLOEXEC : 0));
  if (fd < 0) return nullptr;
  FILE* const found = ::fdopen(fd, "r");
  if (found == nullptr) ::close(fd);
  return found;
}

// The argument that open() has only if it may create a file.
mode_t mode_of(int flags, va_list arguments) noexcept {
  const bool creates = (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
  return creates ? va_arg(arguments, mode_t) : 0;
}

}  // namespace
}  // namespace weft::paths

using weft::paths::mode_of;
using weft::paths::opened;

#define WEFT_OPEN(name)                                             \
  WEFT_INTERPOSES int name(const char* path, int flags, ...) {      \
    va_list arguments;                                              \
    va_start(arguments, flags);                                     \
    const mode_t mode = mode_of(flags, arguments);                  \
    va_end(arguments);                                              \
    return opened(WEFT_NEXT(name)(path, flags, mode), path, flags); \
  }
#define WEFT_OPENAT(name)                                                   \
  WEFT_INTERPOSES int name(int folder, const char* path, int flags, ...) {  \
    va_list arguments;                                                      \
    va_start(arguments, flags);                                             \
    const mode_t mode = mode_of(flags, arguments);                          \
    va_end(arguments);                                                      \
    return opened(WEFT_NEXT(name)(folder, path, flags, mode), path, flags); \
  }

WEFT_OPEN(open)
WEFT_OPEN(open64)
WEFT_OPENAT(openat)
WEFT_OPENAT(openat64)

WEFT_INTERPOSES int __open_2(const char* path, int flags) {
  return opened(WEFT_NEXT(__open_2)(path, flags), path, flags);
}
WEFT_INTERPOSES int __open64_2(const char* path, int flags) {
  return opened(WEFT_NEXT(__open64_2)(path, flags), path, flags);
}
WEFT_INTERPOSES int __openat_2(int folder, const char* path, int flags) {
  return opened(WEFT_NEXT(__openat_2)(folder, path, flags), path, flags);
}
WEFT_INTERPOSES int __openat64_2(int folder, const char* path, int flags) {
  return opened(WEFT_NEXT(__openat64_2)(folder, path, flags), path, flags);
}
WEFT_INTERPOSES FILE* fopen(const char* path, const char* mode) {
  return opened(WEFT_NEXT(fopen)(path, mode), path, mode);
}
WEFT_INTERPOSES FILE* fopen64(const char* path, const char* mode) {
  return opened(WEFT_NEXT(fopen64)(path, mode), path, mode);
}
