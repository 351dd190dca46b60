// SPDX-License-Identifier: BSD-3-Clause
// See secret.hpp. What is checked is the open file, which cannot be replaced meanwhile.
#include "lib/crypto/secret.hpp"

#include <fcntl.h>
#include <pwd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "lib/base/check.hpp"
#include "lib/base/tcp.hpp"

namespace weft::crypto {

namespace {

constexpr mode_t kOthers = S_IRWXG | S_IRWXO;

Error error_of(const std::string& name, int reason, const char* doing) {
  const Code code = reason == ENOENT                      ? Code::not_found
                    : reason == EACCES || reason == EPERM ? Code::permission_denied
                                                          : Code::io_error;
  return {code,
          std::string("cannot ") + doing + " the secret " + name + ": " + std::strerror(reason)};
}

Error refusal(const std::string& name, const std::string& why) {
  return {Code::permission_denied, "the secret " + name + " is not used: " + why};
}

// A file whose content only its owner, or root, knows and chooses.
Result<void> check_file(const std::string& name, const struct stat& status) {
  if (!S_ISREG(status.st_mode)) return refusal(name, "it is not a file");
  if (status.st_uid != geteuid() && status.st_uid != 0)
    return refusal(name, "it belongs to user " + std::to_string(status.st_uid) +
                             ", and this process runs as user " + std::to_string(geteuid()));
  if ((status.st_mode & kOthers) != 0)
    return refusal(name, "other users can read or write it: chmod 600 " + name);
  return {};
}

// From its begin, wherever others that have inherited the descriptor are reading.
Result<std::string> content_of(int fd, const std::string& name) {
  std::string content(kMostSecretBytes + 1, '\0');
  size_t size = 0;
  while (size < content.size()) {
    const ssize_t n =
        pread(fd, content.data() + size, content.size() - size, static_cast<off_t>(size));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return error_of(name, errno, "read");
    if (n == 0) break;
    size += static_cast<size_t>(n);
  }
  WEFT_DCHECK(size <= content.size());
  content.resize(size);
  while (!content.empty() && (content.back() == '\n' || content.back() == '\r')) content.pop_back();
  if (content.size() >= kLeastSecretBytes && content.size() <= kMostSecretBytes) return content;
  return Error{Code::invalid_argument,
               "the secret " + name + " has " +
                   (size > kMostSecretBytes ? "more than 4096" : std::to_string(content.size())) +
                   " bytes: it needs 32 to 4096 random ones, say of `openssl rand -hex 32`"};
}

Result<std::string> read_descriptor(const std::string& name, std::string_view number) {
  int fd = -1;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), fd);
  if (error != std::errc{} || end != number.data() + number.size() || fd < 0)
    return Error{Code::invalid_argument, "the secret " + name + ": write fd:NUMBER, or a path"};
  return content_of(fd, name);
}

Result<std::string> read_file(const std::string& path, int more_flags = 0) {
  const base::Socket file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | more_flags));
  if (!file) return error_of(path, errno, "open");
  struct stat status {};
  if (::fstat(file.fd(), &status) != 0) return error_of(path, errno, "read");
  if (const Result<void> fit = check_file(path, status); !fit) return fit.error();
  return content_of(file.fd(), path);
}

// ---- the user's ---------------------------------------------------------------------------------

// Whether a file of the user's can lie in `folder` where no other user can take it away.
bool is_own_folder(const std::string& folder) {
  struct stat status {};
  return ::stat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
         status.st_uid == geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

std::string home_of_user() {
  std::vector<char> room(4096);
  passwd entry{};
  passwd* found = nullptr;
  while (getpwuid_r(geteuid(), &entry, room.data(), room.size(), &found) == ERANGE &&
         room.size() < (1u << 20))
    room.resize(room.size() * 2);
  return found != nullptr && entry.pw_dir != nullptr ? entry.pw_dir : "";
}

std::string path_of_user_secret() {
  const std::string home = home_of_user();
  if (home.size() > 1 && is_own_folder(home)) {
    const std::string config = home + "/.config", own = config + "/weft";
    (void)::mkdir(config.c_str(), 0700);
    (void)::mkdir(own.c_str(), 0700);
    const std::string path = own + "/loopback.key";
    const bool is_there = ::access(path.c_str(), F_OK) == 0;
    if (is_own_folder(own) && (is_there || ::access(own.c_str(), W_OK) == 0)) return path;
  }
  return "/dev/shm/weft-" + std::to_string(geteuid()) + ".key";
}

// Writes a new secret under another name first, so that none is seen incomplete. If another process
// was faster, its secret stays.
Result<void> make_user_secret(const std::string& path) {
  Result<std::string> secret = random_secret();
  Result<std::string> suffix = random_secret();
  if (!secret) return secret.error();
  if (!suffix) return suffix.error();
  WEFT_DCHECK(*secret != *suffix);
  const std::string draft = path + "." + suffix->substr(0, 16);
  const base::Socket file(
      ::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return error_of(path, errno, "create");
  *secret += '\n';
  const bool written =
      ::fchmod(file.fd(), 0600) == 0 &&
      ::write(file.fd(), secret->data(), secret->size()) == static_cast<ssize_t>(secret->size());
  const bool linked = written && (::link(draft.c_str(), path.c_str()) == 0 || errno == EEXIST);
  const int reason = errno;
  ::unlink(draft.c_str());
  if (linked) return {};
  return error_of(path, reason, "create");
}

}  // namespace

Result<std::string> read_secret(std::string_view name) {
  constexpr std::string_view kDescriptor = "fd:";
  if (name.starts_with(kDescriptor))
    return read_descriptor(std::string(name), name.substr(kDescriptor.size()));
  return read_file(std::string(name));
}

Result<std::string> read_user_secret() {
  const std::string path = path_of_user_secret();
  Result<std::string> secret = read_file(path, O_NOFOLLOW);
  if (secret || secret.error().code != Code::not_found) return secret;
  if (const Result<void> made = make_user_secret(path); !made) return made.error();
  return read_file(path, O_NOFOLLOW);
}

Result<std::string> read_own_secret() {
  const char* const name = secure_getenv("WEFT_SECRET");
  return name != nullptr && *name != 0 ? read_secret(name) : read_user_secret();
}

Result<std::string> random_secret() {
  uint8_t bytes[32];
  if (getrandom(bytes, sizeof bytes, 0) != static_cast<ssize_t>(sizeof bytes))
    return Error{Code::io_error, "getrandom failed: no random secret"};
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  WEFT_DCHECK(text.size() == 2 * sizeof bytes && text.size() >= kLeastSecretBytes);
  return text;
}

Result<void> hand_down_secret() {
  for (const char* const name : {"WEFT_SECRET", "WEFT_INSECURE"})
    if (const char* const value = std::getenv(name); value != nullptr && *value != 0) return {};
  const Result<std::string> secret = random_secret();
  if (!secret) return secret.error();
  const int fd = ::memfd_create("weft-secret", 0);  // inherited through execve()
  if (fd < 0) return Error{Code::no_memory, "no memory file for the secret of the job"};
  if (::write(fd, secret->data(), secret->size()) != static_cast<ssize_t>(secret->size()))
    return Error{Code::no_memory, "no memory for the secret of the job"};
  ::setenv("WEFT_SECRET", ("fd:" + std::to_string(fd)).c_str(), 1);
  return {};
}

}  // namespace weft::crypto
