// SPDX-License-Identifier: BSD-3-Clause
// A store in a directory: one file per key, which is written under a temporary name and linked, so
// it is never seen incomplete. A key that is too long for a file name continues in a subdirectory.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "lib/base/clock.hpp"
#include "lib/collective/bootstrap/store.hpp"

namespace weft::collective {
namespace {

constexpr useconds_t kPollInterval_us = 1000;
// Bytes of a file name; file systems allow 255, and set() adds seven.
constexpr size_t kLongest = 200;

class FileStore : public Store {
 public:
  explicit FileStore(std::string directory) : directory_(std::move(directory)) {}

  Result<void> set(std::string_view key, std::string_view value) override {
    const std::string path = path_of(key);
    make_directories(path);
    std::string fresh = path + ".XXXXXX";  // unique among all hosts
    const int fd = mkostemp(fresh.data(), O_CLOEXEC);
    if (fd < 0) return system_error("cannot write " + fresh);
    const ssize_t written = write(fd, value.data(), value.size());
    if (close(fd) != 0 || written != static_cast<ssize_t>(value.size())) {
      unlink(fresh.c_str());
      return system_error("cannot write " + fresh);
    }
    (void)chmod(fresh.c_str(), 0644);
    const bool linked = link(fresh.c_str(), path.c_str()) == 0 || errno == EEXIST;
    const Result<void> done = linked ? Result<void>() : system_error("cannot write " + path);
    unlink(fresh.c_str());
    return done;
  }

  Result<std::string> get(std::string_view key, Duration limit) override {
    const base::Clock& clock = base::Clock::process();
    const Instant deadline = clock.now() + limit;
    while (true) {
      std::ifstream file(path_of(key), std::ios::binary);
      if (file) return std::string(std::istreambuf_iterator<char>(file), {});
      if (clock.now() > deadline)
        return Error{Code::timed_out, "key '" + std::string(key) + "' was not set in " +
                                          directory_ + " within " + std::to_string(limit.ms()) +
                                          " ms: are all processes started?"};
      usleep(kPollInterval_us);
    }
  }

 private:
  // Keys may contain any byte, file names may not. Directories end in a '+', which no file does.
  std::string path_of(std::string_view key) const {
    std::string path = directory_ + "/";
    size_t length = 0;
    for (const char c : key) {
      const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_';
      char code[4];
      std::snprintf(code, sizeof code, "%%%02X", static_cast<unsigned char>(c));
      if (length >= kLongest) path += "+/", length = 0;
      path += plain ? std::string(1, c) : std::string(code);
      length += plain ? 1 : 3;
    }
    return path;
  }

  // Errors are reported when the file is created.
  void make_directories(const std::string& path) const {
    for (size_t end = path.find("+/", directory_.size()); end != std::string::npos;
         end = path.find("+/", end + 2))
      (void)mkdir(path.substr(0, end + 1).c_str(), 0755);
  }

  std::string directory_;
};

}  // namespace

Error system_error(const std::string& what) {
  return {Code::io_error, what + ": " + std::strerror(errno)};
}

Result<std::unique_ptr<Store>> open_file_store(std::string_view directory) {
  const std::string path(directory);
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    return system_error("cannot make the directory " + path);
  return std::unique_ptr<Store>(std::make_unique<FileStore>(path));
}

}  // namespace weft::collective

namespace weft {

Result<std::unique_ptr<Store>> Store::open(std::string_view address, bool serve, Duration limit,
                                           const Security& security) {
  const size_t colon = address.find(':');
  const std::string_view kind = address.substr(0, colon);
  if (colon != std::string_view::npos && colon + 1 < address.size()) {
    const std::string_view where = address.substr(colon + 1);
    if (kind == "file") return collective::open_file_store(where);
    if (kind == "tcp") return collective::open_tcp_store(where, serve, limit, security);
  }
  return Error{Code::invalid_argument, "store address '" + std::string(address) +
                                           "': write file:DIRECTORY or tcp:HOST:PORT"};
}

}  // namespace weft
