// SPDX-License-Identifier: BSD-3-Clause
// See unix_socket.hpp.
#include "providers/port/dpdk/unix_socket.hpp"

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstdio>

namespace weft::port::dpdk {

// Names of abstract sockets begin with @ in the kernel's table, and may be padded with more.
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

namespace {

bool names(const sockaddr_un& address, socklen_t length, const std::string& name) {
  if (address.sun_family != AF_UNIX || length <= offsetof(sockaddr_un, sun_path) + 1) return false;
  const char* const path = address.sun_path + (address.sun_path[0] == 0 ? 1 : 0);
  const auto room = static_cast<size_t>(reinterpret_cast<const char*>(&address + 1) - path);
  return name.size() < room && name.compare(0, name.size(), path, name.size()) == 0 &&
         path[name.size()] == 0;
}

}  // namespace

bool listens_at(int fd, const std::string& name) {
  int listens = 0;
  socklen_t length = sizeof listens;
  if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) != 0 || listens == 0)
    return false;
  sockaddr_un address{};
  length = sizeof address;
  return getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0 &&
         names(address, length, name);
}

bool is_connected(const std::string& name) {
  bool found = false;
  for_each_descriptor([&](int fd) {
    sockaddr_un address{};
    socklen_t length = sizeof address;
    found = found || (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0 &&
                      names(address, length, name));
  });
  return found;
}

}  // namespace weft::port::dpdk
