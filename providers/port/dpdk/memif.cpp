// SPDX-License-Identifier: BSD-3-Clause
// See memif.hpp.
#include "providers/port/dpdk/memif.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>

namespace weft::port::dpdk {
namespace {

// Does somebody listen at this unix socket? Connecting would disturb, so the kernel's table is
// read. Names of abstract sockets begin with @ there, and may be padded with more of them.
bool has_listener(const std::string& path) {
  FILE* const file = std::fopen("/proc/net/unix", "re");
  if (file == nullptr) return false;
  bool found = false;
  char line[512];
  while (!found && std::fgets(line, sizeof line, file) != nullptr) {
    unsigned flags = 0;
    char name[256] = "";
    constexpr unsigned kListens = 0x10000;
    if (std::sscanf(line, "%*x: %*x %*x %x %*x %*x %*u %255s", &flags, name) != 2) continue;
    std::string text = name;
    while (text.size() > 1 && text.back() == '@') text.pop_back();
    found = (flags & kListens) != 0 && (text == path || text == "@" + path);
  }
  std::fclose(file);
  return found;
}

// Is it a listening unix socket of this name, as a path or abstract?
bool listens_at(int fd, const std::string& name) {
  int listens = 0;
  socklen_t length = sizeof listens;
  if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) != 0 || listens == 0)
    return false;
  sockaddr_un address{};
  length = sizeof address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0 ||
      address.sun_family != AF_UNIX || length <= offsetof(sockaddr_un, sun_path) + 1)
    return false;
  const char* const path = address.sun_path + (address.sun_path[0] == 0 ? 1 : 0);
  const auto room = static_cast<size_t>(reinterpret_cast<const char*>(&address + 1) - path);
  return name.size() < room && name.compare(0, name.size(), path, name.size()) == 0 &&
         path[name.size()] == 0;
}

struct Servers {
  std::mutex mutex;
  std::map<std::string, unsigned> at;  // a socket
};
Servers& servers() {
  static Servers* const all = new Servers;  // devices may be closed by static destructors
  return *all;
}

}  // namespace

bool is_memif(const Options& options) { return options.device.rfind("net_memif", 0) == 0; }

void complete_memif(Options& options) {
  add_device_argument(options, "socket", "/run/memif.sock");
  const bool served = has_listener(device_argument(options, "socket"));
  add_device_argument(options, "role", served ? "client" : "server");
  add_device_argument(options, "bsize", "8192");
}

std::string memif_listens_at(const Options& options) {
  if (!is_memif(options)) return {};
  const std::string role = device_argument(options, "role");
  return role == "server" || role == "master" ? device_argument(options, "socket") : std::string();
}

std::string memif_connects_to(const Options& options) {
  const bool client = is_memif(options) && memif_listens_at(options).empty();
  return client ? device_argument(options, "socket") : std::string();
}

void memif_await_link(const std::string& socket, const std::function<bool()>& link_is_up) {
  constexpr int kMost_ms = 1'000;
  constexpr useconds_t kPause_us = 1'000;
  for (int ms = 0; ms < kMost_ms && !link_is_up() && has_listener(socket); ++ms) usleep(kPause_us);
}

void memif_opened(const std::string& socket) {
  const std::lock_guard<std::mutex> lock(servers().mutex);
  ++servers().at[socket];
}

void memif_closed(const std::string& socket) noexcept {
  const std::lock_guard<std::mutex> lock(servers().mutex);
  const auto entry = servers().at.find(socket);
  if (entry == servers().at.end() || --entry->second != 0) return;
  servers().at.erase(entry);
  const int never_readable = eventfd(0, EFD_CLOEXEC);
  if (never_readable < 0) return;
  if (DIR* const open = opendir("/proc/self/fd")) {
    while (const dirent* entry = readdir(open)) {
      const int fd = std::atoi(entry->d_name);
      if (listens_at(fd, socket)) (void)dup3(never_readable, fd, O_CLOEXEC);
    }
    closedir(open);
  }
  (void)close(never_readable);
}

}  // namespace weft::port::dpdk
