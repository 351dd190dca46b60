// SPDX-License-Identifier: BSD-3-Clause
// See vhost.hpp.
#include "providers/port/dpdk/vhost.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include "providers/port/dpdk/unix_socket.hpp"

namespace weft::port::dpdk {
namespace {

bool is_socket(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode);
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
  const std::string path = device_argument(options, "iface");
  if (!has_listener(path)) {
    if (is_socket(path)) (void)::unlink(path.c_str());
    return;
  }
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
