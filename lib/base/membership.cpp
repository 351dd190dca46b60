// SPDX-License-Identifier: BSD-3-Clause
// See membership.hpp.
#include "lib/base/membership.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <memory>

namespace weft::base {
namespace {

constexpr size_t kIpv4At = 12;  // of the four bytes in a Gid

bool is_address(const sockaddr* at, const Gid& address) noexcept {
  if (at == nullptr || at->sa_family != (address.is_ipv4() ? AF_INET : AF_INET6)) return false;
  if (address.is_ipv4()) {
    sockaddr_in v4;
    std::memcpy(&v4, at, sizeof v4);
    return std::memcmp(&v4.sin_addr, &address.bytes[kIpv4At], sizeof v4.sin_addr) == 0;
  }
  sockaddr_in6 v6;
  std::memcpy(&v6, at, sizeof v6);
  return std::memcmp(&v6.sin6_addr, address.bytes.data(), sizeof v6.sin6_addr) == 0;
}

}  // namespace

uint32_t interface_of(const Gid& address) noexcept {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return 0;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, ::freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next)
    if (is_address(entry->ifa_addr, address)) return ::if_nametoindex(entry->ifa_name);
  return 0;
}

bool change_membership(int socket, uint32_t interface, const Gid& group, bool join) noexcept {
  group_req request{};
  request.gr_interface = interface;
  if (group.is_ipv4()) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    std::memcpy(&v4.sin_addr, &group.bytes[kIpv4At], sizeof v4.sin_addr);
    std::memcpy(&request.gr_group, &v4, sizeof v4);
  } else {
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    std::memcpy(&v6.sin6_addr, group.bytes.data(), sizeof v6.sin6_addr);
    std::memcpy(&request.gr_group, &v6, sizeof v6);
  }
  return ::setsockopt(socket, group.is_ipv4() ? IPPROTO_IP : IPPROTO_IPV6,
                      join ? MCAST_JOIN_GROUP : MCAST_LEAVE_GROUP, &request, sizeof request) == 0;
}

}  // namespace weft::base
