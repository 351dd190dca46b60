// SPDX-License-Identifier: BSD-3-Clause
// stat() and access() of the view.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstring>

#include "lib/adapters/verbs/paths/next.hpp"
#include "lib/adapters/verbs/paths/tree.hpp"

extern "C" {
// stat() of programs linked against glibc before 2.33.
int __xstat(int version, const char* path, struct stat* status) noexcept;
int __xstat64(int version, const char* path, struct stat64* status) noexcept;
int __lxstat(int version, const char* path, struct stat* status) noexcept;
int __lxstat64(int version, const char* path, struct stat64* status) noexcept;
int __fxstatat(int version, int folder, const char* path, struct stat* status, int flags) noexcept;
int __fxstatat64(int version, int folder, const char* path, struct stat64* status,
                 int flags) noexcept;
}

namespace weft::paths {
namespace {

constexpr unsigned kPage = 4096;  // the size that sysfs gives its files

mode_t mode_of(const Node& node) noexcept {
  switch (node.kind) {
    case Kind::directory:
      return S_IFDIR | 0755;
    case Kind::device:
      return S_IFCHR | 0666;
    default:
      return S_IFREG | 0444;
  }
}

uint32_t device_number(const Node& node) noexcept {
  return node.kind == Kind::device ? node.row->device_number + node.place.device : 0;
}

// FNV-1a of the path: the same for the same file.
uint64_t inode(const Node& node) noexcept {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char* at = node.path; *at != '\0'; ++at)
    hash = (hash ^ static_cast<unsigned char>(*at)) * 0x100000001b3;
  return hash;
}

template <class Status>
void fill(const Node& node, Status& status) noexcept {
  const uint32_t number = device_number(node);
  std::memset(&status, 0, sizeof status);
  status.st_mode = mode_of(node);
  status.st_nlink = node.kind == Kind::directory ? 2 : 1;
  status.st_ino = inode(node);
  status.st_rdev = makedev(number >> 8, number & 0xFF);
  status.st_size = node.kind == Kind::file ? kPage : 0;
  status.st_blksize = kPage;
}

void fill(const Node& node, struct statx& status) noexcept {
  const uint32_t number = device_number(node);
  std::memset(&status, 0, sizeof status);
  status.stx_mask = STATX_BASIC_STATS;
  status.stx_mode = static_cast<uint16_t>(mode_of(node));
  status.stx_nlink = node.kind == Kind::directory ? 2 : 1;
  status.stx_ino = inode(node);
  status.stx_rdev_major = number >> 8;
  status.stx_rdev_minor = number & 0xFF;
  status.stx_size = node.kind == Kind::file ? kPage : 0;
  status.stx_blksize = kPage;
}

// What stat() returned, or else 0 with the status of what the view has at `path`.
template <class Status>
int seen(int result, const char* path, Status* status) noexcept {
  const int error = errno;
  if (result == 0 || !is_absent(error)) return result;
  const Node node = find(path);
  errno = error;
  if (!node) return result;
  fill(node, *status);
  return 0;
}

// What access() returned, or else what it is of the view: devices may be read and written, files
// read, directories searched.
int allowed(int result, const char* path, int wanted) noexcept {
  const int error = errno;
  if (result == 0 || !is_absent(error)) return result;
  const Node node = find(path);
  errno = error;
  if (!node) return result;
  const int has = node.kind == Kind::device      ? R_OK | W_OK
                  : node.kind == Kind::directory ? R_OK | X_OK
                                                 : R_OK;
  if ((wanted & ~has) == 0) return 0;
  errno = EACCES;
  return -1;
}

}  // namespace
}  // namespace weft::paths

using weft::paths::allowed;
using weft::paths::seen;

#define WEFT_STAT(name, Status)                                                \
  WEFT_INTERPOSES int name(const char* path, struct Status* status) noexcept { \
    return seen(WEFT_NEXT(name)(path, status), path, status);                  \
  }
#define WEFT_XSTAT(name, Status)                                                            \
  WEFT_INTERPOSES int name(int version, const char* path, struct Status* status) noexcept { \
    return seen(WEFT_NEXT(name)(version, path, status), path, status);                      \
  }
#define WEFT_STATAT(name, Status)                                               \
  WEFT_INTERPOSES int name(int folder, const char* path, struct Status* status, \
                           int flags) noexcept {                                \
    return seen(WEFT_NEXT(name)(folder, path, status, flags), path, status);    \
  }
#define WEFT_XSTATAT(name, Status)                                                           \
  WEFT_INTERPOSES int name(int version, int folder, const char* path, struct Status* status, \
                           int flags) noexcept {                                             \
    return seen(WEFT_NEXT(name)(version, folder, path, status, flags), path, status);        \
  }

WEFT_STAT(stat, stat)
WEFT_STAT(stat64, stat64)
WEFT_STAT(lstat, stat)
WEFT_STAT(lstat64, stat64)
WEFT_STATAT(fstatat, stat)
WEFT_STATAT(fstatat64, stat64)
WEFT_XSTAT(__xstat, stat)
WEFT_XSTAT(__xstat64, stat64)
WEFT_XSTAT(__lxstat, stat)
WEFT_XSTAT(__lxstat64, stat64)
WEFT_XSTATAT(__fxstatat, stat)
WEFT_XSTATAT(__fxstatat64, stat64)

WEFT_INTERPOSES int statx(int folder, const char* path, int flags, unsigned mask,
                          struct statx* status) noexcept {
  return seen(WEFT_NEXT(statx)(folder, path, flags, mask, status), path, status);
}
WEFT_INTERPOSES int access(const char* path, int wanted) noexcept {
  return allowed(WEFT_NEXT(access)(path, wanted), path, wanted);
}
WEFT_INTERPOSES int eaccess(const char* path, int wanted) noexcept {
  return allowed(WEFT_NEXT(eaccess)(path, wanted), path, wanted);
}
WEFT_INTERPOSES int euidaccess(const char* path, int wanted) noexcept {
  return allowed(WEFT_NEXT(euidaccess)(path, wanted), path, wanted);
}
WEFT_INTERPOSES int faccessat(int folder, const char* path, int wanted, int flags) noexcept {
  return allowed(WEFT_NEXT(faccessat)(folder, path, wanted, flags), path, wanted);
}
