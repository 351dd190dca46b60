// SPDX-License-Identifier: BSD-3-Clause
// See memif.hpp.
#include "providers/port/dpdk/memif.hpp"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <map>
#include <mutex>

#include "providers/port/dpdk/unix_socket.hpp"

namespace weft::port::dpdk {
namespace {

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
  const bool has_server = has_listener(device_argument(options, "socket"));
  add_device_argument(options, "role", has_server ? "client" : "server");
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
  for_each_descriptor([&](int fd) {
    if (listens_at(fd, socket)) (void)dup3(never_readable, fd, O_CLOEXEC);
  });
  (void)close(never_readable);
}

}  // namespace weft::port::dpdk
