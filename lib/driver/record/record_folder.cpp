// SPDX-License-Identifier: BSD-3-Clause
// See record_folder.hpp.
#include "lib/driver/record/record_folder.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "lib/base/check.hpp"
#include "lib/base/memory_permitting.hpp"
#include "lib/driver/record/event.hpp"

namespace weft::driver {
namespace {

constexpr const char* kSuffix = ".record";

std::string own_folder(const char* parent) {
  return std::string(parent) + "/weft-" + std::to_string(::geteuid());
}

// A link could lead others' files here; a folder that others may write to, ours away.
const char* refusal_of(const std::string& folder) noexcept {
  struct stat status {};
  if (::lstat(folder.c_str(), &status) != 0) return std::strerror(errno);
  if (!S_ISDIR(status.st_mode)) return "it is not a folder";
  if (status.st_uid != ::geteuid()) return "it belongs to another user";
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) return "other users may write to it";
  return nullptr;
}

bool has_ended(const std::string& path) noexcept {
  const int file = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0) return false;
  RecordHeader header{};
  const bool whole = ::read(file, static_cast<void*>(&header), sizeof header) == sizeof header;
  ::close(file);
  // Of another process namespace nothing is known.
  return whole && header.process_space == process_space() &&
         start_of_process(header.process) != header.process_started;
}

}  // namespace

std::optional<std::string> record_folder() {
  const char* const given = ::secure_getenv("WEFT_RECORDS");
  if (given != nullptr && std::strcmp(given, "0") == 0) return std::nullopt;
  if (given != nullptr && *given != '\0') return given;
  const char* const runtime = ::secure_getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && ::access(runtime, W_OK | X_OK) == 0)
    return std::string(runtime) + "/weft";
  return own_folder(::access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/tmp");
}

Result<std::string> make_record_folder() {
  const std::optional<std::string> folder = record_folder();
  if (!folder) return Error{Code::not_found, "flight records are off: WEFT_RECORDS=0"};
  const bool is_there = ::mkdir(folder->c_str(), S_IRWXU) == 0 || errno == EEXIST;
  const char* const reason = is_there ? refusal_of(*folder) : std::strerror(errno);
  if (reason == nullptr) return *folder;
  return Error{
      is_there ? Code::permission_denied : Code::io_error,
      "no flight records in " + *folder + ": " + reason + "; name another folder in WEFT_RECORDS"};
}

std::vector<std::string> records_in(const std::string& folder) {
  std::vector<std::pair<int64_t, std::string>> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> list(::opendir(folder.c_str()), &::closedir);
  while (const dirent* entry = list != nullptr ? ::readdir(list.get()) : nullptr) {
    const std::string path = folder + "/" + entry->d_name;
    struct stat status {};
    if (!path.ends_with(kSuffix) || ::lstat(path.c_str(), &status) != 0 ||
        !S_ISREG(status.st_mode) || status.st_uid != ::geteuid())
      continue;
    found.emplace_back(int64_t{status.st_ctim.tv_sec} * 1'000'000'000 + status.st_ctim.tv_nsec,
                       path);
  }
  std::sort(found.rbegin(), found.rend());
  std::vector<std::string> paths;
  for (auto& [time, path] : found) paths.push_back(std::move(path));
  return paths;
}

void remove_old_records(const std::string& folder, size_t kept) noexcept {
  (void)base::memory_permitting([&] {
    for (const std::string& path : records_in(folder))
      if (has_ended(path) && kept-- == 0) {
        (void)::unlink(path.c_str());
        kept = 0;
      }
  });
}

uint64_t start_of_process(int32_t process) noexcept {
  char path[32], text[1024];
  std::snprintf(path, sizeof path, "/proc/%d/stat", process);
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const ssize_t length = ::read(file, text, sizeof text - 1);
  ::close(file);
  if (length <= 0) return 0;
  WEFT_DCHECK(static_cast<size_t>(length) < sizeof text);
  text[length] = '\0';
  // The second field is the program's name in parentheses, which may hold anything.
  const char* at = std::strrchr(text, ')');
  for (int field = 2; at != nullptr && field < 22; ++field) at = std::strchr(at + 1, ' ');
  return at != nullptr ? std::strtoull(at, nullptr, 10) : 0;
}

uint64_t process_space() noexcept {
  struct stat space {};
  return ::stat("/proc/self/ns/pid", &space) == 0 ? space.st_ino : 0;
}

}  // namespace weft::driver
