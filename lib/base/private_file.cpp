// SPDX-License-Identifier: BSD-3-Clause
// See private_file.hpp. What is checked is the open file, which cannot be replaced meanwhile.
#include "lib/base/private_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace weft::base {

namespace {

constexpr mode_t kOwnerOnly = S_IRUSR | S_IWUSR;

// Why an existing file is not written to; nullptr: it is.
const char* refusal_of(const struct stat& status) noexcept {
  if (S_ISFIFO(status.st_mode) || S_ISCHR(status.st_mode)) return nullptr;
  if (!S_ISREG(status.st_mode)) return "it is not a file";
  if (status.st_uid != geteuid()) return "it belongs to another user: choose another name";
  if (status.st_nlink != 1) return "it has several names (hard links): remove it first";
  return nullptr;
}

Error error_of(const std::string& path, std::string_view what, Code code, const char* reason) {
  return {code, "cannot create " + std::string(what) + " \"" + path + "\": " + reason};
}

Error system_error(const std::string& path, std::string_view what, int reason) {
  if (reason == ELOOP)
    return error_of(path, what, Code::permission_denied,
                    "it is a symbolic link, which is not followed: name the file itself");
  const Code code = reason == ENOENT   ? Code::not_found
                    : reason == EACCES ? Code::permission_denied
                    : reason == ENOMEM ? Code::no_memory
                                       : Code::io_error;
  return error_of(path, what, code, std::strerror(reason));
}

}  // namespace

Result<File> create_private_file(const std::string& path, std::string_view what) {
  constexpr int kFlags = O_WRONLY | O_CLOEXEC | O_NOFOLLOW;
  int fd = ::open(path.c_str(), kFlags | O_CREAT | O_EXCL, kOwnerOnly);
  const bool is_new = fd >= 0;
  if (!is_new && errno == EEXIST) fd = ::open(path.c_str(), kFlags);
  if (fd < 0) return system_error(path, what, errno);
  File file(::fdopen(fd, "wb"));
  if (!file) {
    const int reason = errno;
    ::close(fd);
    return system_error(path, what, reason);
  }
  if (is_new) return file;
  struct stat status {};
  if (::fstat(fd, &status) != 0) return system_error(path, what, errno);
  if (const char* const refusal = refusal_of(status))
    return error_of(path, what, Code::permission_denied, refusal);
  if (S_ISREG(status.st_mode) && (::fchmod(fd, kOwnerOnly) != 0 || ::ftruncate(fd, 0) != 0))
    return system_error(path, what, errno);
  return file;
}

}  // namespace weft::base
