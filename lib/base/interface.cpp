// SPDX-License-Identifier: BSD-3-Clause
// See interface.hpp.
#include "lib/base/interface.hpp"

#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>

#include "lib/base/kernel/socket.hpp"
#include "lib/base/socket_gid.hpp"

namespace weft::base {
namespace {

using Entries = std::unique_ptr<ifaddrs, void (*)(ifaddrs*)>;

Entries all_addresses() noexcept {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) list = nullptr;
  return {list, ::freeifaddrs};
}

// Empty for other families.
Gid address_in(const ifaddrs& entry) noexcept {
  const sockaddr* const at = entry.ifa_addr;
  if (at == nullptr || (at->sa_family != AF_INET && at->sa_family != AF_INET6)) return {};
  sockaddr_storage there{};
  std::memcpy(&there, at, at->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
  return gid_of(there);
}

class ControlSocket {
 public:
  ControlSocket() noexcept : fd_(base::kernel_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC)) {}
  ControlSocket(const ControlSocket&) = delete;
  ControlSocket& operator=(const ControlSocket&) = delete;
  ~ControlSocket() {
    if (fd_ >= 0) ::close(fd_);
  }
  bool request(unsigned long what, ifreq& about) const noexcept {
    return fd_ >= 0 && ::ioctl(fd_, what, &about) == 0;
  }

 private:
  const int fd_;
};

// Megabits per second; 0: unknown.
uint32_t speed_of(const ControlSocket& socket, ifreq about) noexcept {
  ethtool_cmd settings{};
  settings.cmd = ETHTOOL_GSET;
  about.ifr_data = reinterpret_cast<char*>(&settings);
  if (!socket.request(SIOCETHTOOL, about)) return 0;
  const uint32_t speed = ethtool_cmd_speed(&settings);
  return speed == 0xFFFF || speed > INT32_MAX ? 0 : speed;  // SPEED_UNKNOWN is -1
}

}  // namespace

uint32_t interface_for(const Gid& address) noexcept {
  const Entries entries = all_addresses();
  for (const ifaddrs* entry = entries.get(); entry != nullptr; entry = entry->ifa_next) {
    const bool local =
        address.is_ipv4() && is_loopback(address) && (entry->ifa_flags & IFF_LOOPBACK) != 0;
    if (address != Gid{} && (local || address_in(*entry) == address))
      return ::if_nametoindex(entry->ifa_name);
  }
  return 0;
}

InterfaceState interface_state(uint32_t interface) {
  ifreq about{};
  if (::if_indextoname(interface, about.ifr_name) == nullptr) return {};
  InterfaceState state;
  state.name = about.ifr_name;
  const ControlSocket socket;
  ifreq flags = about;
  if (!socket.request(SIOCGIFFLAGS, flags)) return state;
  const auto set = static_cast<unsigned short>(flags.ifr_flags);
  state.works = (set & IFF_UP) != 0 && (set & IFF_RUNNING) != 0;
  state.loopback = (set & IFF_LOOPBACK) != 0;
  state.speed_mbps = speed_of(socket, about);
  return state;
}

std::vector<Gid> addresses_of(uint32_t interface) {
  std::vector<Gid> found;
  char name[IF_NAMESIZE] = {};
  if (::if_indextoname(interface, name) == nullptr) return found;
  const Entries entries = all_addresses();
  for (const ifaddrs* entry = entries.get(); entry != nullptr; entry = entry->ifa_next)
    if (const Gid gid = address_in(*entry);
        gid != Gid{} && std::string_view(entry->ifa_name) == name)
      found.push_back(gid);
  std::stable_partition(found.begin(), found.end(), [](const Gid& gid) { return gid.is_ipv4(); });
  return found;
}

std::vector<Gid> addresses_of_host() {
  std::vector<Gid> found;
  const Entries entries = all_addresses();
  for (const ifaddrs* entry = entries.get(); entry != nullptr; entry = entry->ifa_next)
    if (const Gid gid = address_in(*entry); gid != Gid{}) found.push_back(gid);
  return found;
}

}  // namespace weft::base
