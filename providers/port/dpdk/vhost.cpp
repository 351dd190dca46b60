// SPDX-License-Identifier: BSD-3-Clause
// See vhost.hpp.
#include "providers/port/dpdk/vhost.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "providers/port/dpdk/unix_socket.hpp"

namespace weft::port::dpdk {
namespace {

// Nobody listens there any more. The kernel's table knows the listeners of one network namespace
// only, so the socket itself is asked.
bool is_left_behind(const std::string& path) {
  sockaddr_un address{};
  if (path.size() >= sizeof address.sun_path) return false;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return false;
  const bool refused =
      ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 &&
      errno == ECONNREFUSED;
  ::close(fd);
  return refused;
}

// There may be a listener in another network namespace.
bool is_served(const std::string& path) {
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

bool is_vhost(const Options& options) { return options.device.rfind("net_vhost", 0) == 0; }

void complete_vhost(Options& options) {
  add_device_argument(options, "iface", "/run/vhost.sock");
  const std::string client = device_argument(options, "client");
  if (!client.empty() && client != "0") return;  // the other end, a virtio_user or QEMU, listens
  if (!is_served(device_argument(options, "iface"))) return;
  rename_interface(options);
  options.device = "virtio_user" + options.device.substr(std::string("net_vhost").size());
  for (const auto& [key, value] : {std::pair{"queues", "1"},
                                   {"queue_size", "1024"},
                                   {"packed_vq", "1"},
                                   {"mrg_rxbuf", "0"},
                                   {"in_order", "1"}})
    add_device_argument(options, key, value);
}

}  // namespace weft::port::dpdk
