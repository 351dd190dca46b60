// SPDX-License-Identifier: BSD-3-Clause
// See membership.hpp.
#include "lib/base/membership.hpp"

#include <ifaddrs.h>
#include <net/if.h>

#include <cstring>
#include <memory>

#include "lib/base/socket_gid.hpp"

namespace weft::base {
namespace {

bool is_address(const sockaddr* at, const Gid& address) noexcept {
  if (at == nullptr || (at->sa_family != AF_INET && at->sa_family != AF_INET6)) return false;
  sockaddr_storage there{};
  std::memcpy(&there, at, at->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
  return gid_of(there) == address;
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
  request.gr_group = socket_address(group, 0);
  return ::setsockopt(socket, group.is_ipv4() ? IPPROTO_IP : IPPROTO_IPV6,
                      join ? MCAST_JOIN_GROUP : MCAST_LEAVE_GROUP, &request, sizeof request) == 0;
}

}  // namespace weft::base
