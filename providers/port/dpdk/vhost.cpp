// SPDX-License-Identifier: BSD-3-Clause
// See vhost.hpp.
#include "providers/port/dpdk/vhost.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "lib/base/kernel/socket.hpp"
#include "providers/port/dpdk/unix_socket.hpp"

namespace weft::port::dpdk {
namespace {

constexpr const char* kDriver = "net_vhost";
constexpr const char* kDefaultSocket = "/run/vhost.sock";

// Whether the socket file has no listener. Connects, since the kernel's table has the listeners of
// one network namespace only.
bool is_left_behind(const std::string& path) {
  sockaddr_un address{};
  if (path.size() >= sizeof address.sun_path) return false;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  const int fd = base::kernel_socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) return false;
  const bool refused =
      ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 &&
      errno == ECONNREFUSED;
  ::close(fd);
  return refused;
}

// There may be a listener in another network namespace.
bool has_vhost(const std::string& path) {
  struct stat status {};
  if (has_listener(path)) return true;
  if (::lstat(path.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode)) return false;
  if (!is_left_behind(path)) return true;
  (void)::unlink(path.c_str());
  return false;
}

// "iface=X" becomes "path=X".
void rename_interface(Options& options) {
  const std::string path = device_argument(options, "iface");
  std::string& all = options.device_arguments;
  all.replace(all.find("iface=" + path), 6 + path.size(), "path=" + path);
}

}  // namespace

bool is_vhost(const Options& options) { return options.device.rfind(kDriver, 0) == 0; }

void complete_vhost(Options& options) {
  add_device_argument(options, "iface", kDefaultSocket);
  const std::string queues = std::to_string(options.queues);
  if (options.queues > 1) add_device_argument(options, "queues", queues);
  const std::string client = device_argument(options, "client");
  if (!client.empty() && client != "0") return;  // the other end, a virtio_user or QEMU, listens
  if (!has_vhost(device_argument(options, "iface"))) return;
  rename_interface(options);
  options.device = "virtio_user" + options.device.substr(std::strlen(kDriver));
  for (const auto& [key, value] : {std::pair{"queues", queues.c_str()},
                                   {"queue_size", "1024"},
                                   {"packed_vq", "1"},
                                   {"mrg_rxbuf", "0"},
                                   {"in_order", "1"}})
    add_device_argument(options, key, value);
}

// Waits for the lock for a bounded time. Continues without it if the folder cannot be locked.
VhostSetupLock::VhostSetupLock(const transport::PortOptions& options) {
  constexpr int kMost_ms = 5'000;
  constexpr useconds_t kPause_us = 1'000;
  if (options.where.rfind(kDriver, 0) != 0) return;
  std::string folder = kDefaultSocket;
  for (const auto& [key, value] : options.options)
    if (key == "iface") folder = value;
  const size_t slash = folder.rfind('/');
  folder = slash == std::string::npos ? "." : folder.substr(0, slash + 1);
  folder_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  for (int ms = 0; ms < kMost_ms && ::flock(folder_, LOCK_EX | LOCK_NB) != 0; ++ms) {
    if (errno != EWOULDBLOCK) return;
    usleep(kPause_us);
  }
}

VhostSetupLock::~VhostSetupLock() {
  if (folder_ >= 0) ::close(folder_);
}

}  // namespace weft::port::dpdk
