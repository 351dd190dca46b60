// SPDX-License-Identifier: BSD-3-Clause
// Resolves WHERE by the list of the machine's interfaces (getifaddrs).
#include "providers/port/udp/address.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "lib/base/kernel/socket.hpp"
#include "lib/base/socket_gid.hpp"
#include "providers/port/udp/descriptor.hpp"

namespace weft::port::udp {
namespace {

Gid gid_of(const sockaddr* address) {
  SocketAddress copy;
  if (address->sa_family == AF_INET) std::memcpy(&copy.v4, address, sizeof copy.v4);
  if (address->sa_family == AF_INET6) std::memcpy(&copy.v6, address, sizeof copy.v6);
  return to_gid(copy);
}

uint32_t mtu_of(const char* interface) {
  const Descriptor any(base::kernel_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC));
  ifreq request{};
  std::strncpy(request.ifr_name, interface, IFNAMSIZ - 1);
  if (::ioctl(any.fd(), SIOCGIFMTU, &request) != 0) return 1500;
  return static_cast<uint32_t>(request.ifr_mtu);
}

// Literals, "::ffff:a.b.c.d" included. A zone ("fe80::1%eth0") becomes `zone`.
bool parse_literal(std::string text, Gid& gid, uint32_t& zone) {
  const size_t percent = text.find('%');
  if (percent != std::string::npos) {
    zone = ::if_nametoindex(text.c_str() + percent + 1);
    text.resize(percent);
  }
  in_addr v4;
  if (::inet_pton(AF_INET, text.c_str(), &v4) == 1) {
    const auto* b = reinterpret_cast<const uint8_t*>(&v4);
    gid = Gid::from_ipv4(b[0], b[1], b[2], b[3]);
    return true;
  }
  return ::inet_pton(AF_INET6, text.c_str(), gid.bytes.data()) == 1;
}

bool is_link_local(const Gid& gid) { return gid.bytes[0] == 0xFE && (gid.bytes[1] & 0xC0) == 0x80; }

// Unicast or multicast (ff02::/16) that means nothing without an interface.
bool needs_scope(const Gid& gid) {
  return is_link_local(gid) || (gid.bytes[0] == 0xFF && (gid.bytes[1] & 0xF) <= 2);
}

// Smaller is better: IPv4, then global IPv6, then link-local.
int preference(const Gid& gid) { return gid.is_ipv4() ? 0 : is_link_local(gid) ? 2 : 1; }

// Of packets from an address that is on a loopback interface but not a loopback address: routes
// lead to it (ECMP), and its packets leave by the other interfaces.
uint32_t mtu_of_routed(const ifaddrs* list) {
  uint32_t least = mtu_of("lo");
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next)
    if ((entry->ifa_flags & (IFF_LOOPBACK | IFF_UP)) == IFF_UP)
      least = std::min(least, mtu_of(entry->ifa_name));
  return least;
}

void take(LocalAddress& local, const ifaddrs& entry, const Gid& gid, const ifaddrs* list) {
  local.gid = gid;
  local.claim = Claim::shared;
  local.loopback = (entry.ifa_flags & IFF_LOOPBACK) != 0;
  local.interface_mtu =
      local.loopback && !base::is_loopback(gid) ? mtu_of_routed(list) : mtu_of(entry.ifa_name);
  local.interface = ::if_nametoindex(entry.ifa_name);
  local.scope = is_link_local(gid) ? local.interface : 0;
}

}  // namespace

SocketAddress to_socket_address(const Gid& gid, uint16_t port, uint32_t scope) noexcept {
  SocketAddress address;
  if (gid.is_ipv4()) {
    address.v4.sin_family = AF_INET;
    address.v4.sin_port = htons(port);
    std::memcpy(&address.v4.sin_addr, gid.bytes.data() + 12, 4);
    address.length = sizeof address.v4;
  } else {
    address.v6.sin6_family = AF_INET6;
    address.v6.sin6_port = htons(port);
    std::memcpy(&address.v6.sin6_addr, gid.bytes.data(), 16);
    address.v6.sin6_scope_id = needs_scope(gid) ? scope : 0;
    address.length = sizeof address.v6;
  }
  return address;
}

Gid to_gid(const SocketAddress& address) noexcept {
  Gid gid;
  if (address.generic.sa_family == AF_INET) {
    gid = Gid::from_ipv4(0, 0, 0, 0);
    std::memcpy(gid.bytes.data() + 12, &address.v4.sin_addr, 4);
  } else {
    std::memcpy(gid.bytes.data(), &address.v6.sin6_addr, 16);
  }
  return gid;
}

uint16_t port_of(const SocketAddress& address) noexcept {
  return ntohs(address.generic.sa_family == AF_INET ? address.v4.sin_port : address.v6.sin6_port);
}

std::string text_of(const Gid& gid) {
  char text[INET6_ADDRSTRLEN] = "";
  if (gid.is_ipv4())
    ::inet_ntop(AF_INET, gid.bytes.data() + 12, text, sizeof text);
  else
    ::inet_ntop(AF_INET6, gid.bytes.data(), text, sizeof text);
  return text;
}

bool next_loopback(Gid& gid) noexcept {
  uint32_t host = (uint32_t{gid.bytes[14]} << 8 | gid.bytes[15]) + 1;
  while ((host & 0xFF) == 0 || (host & 0xFF) == 255) ++host;
  gid.bytes[14] = static_cast<uint8_t>(host >> 8);
  gid.bytes[15] = static_cast<uint8_t>(host);
  return host < 0xFFFF;
}

Result<LocalAddress> resolve(const std::string& where) {
  LocalAddress local;
  local.interface = ::if_nametoindex("lo");
  if (where.empty() || where == "lo") {
    local.gid = Gid::from_ipv4(127, 0, 0, 2);
    local.interface_mtu = mtu_of("lo");
    return local;
  }
  Gid wanted;
  uint32_t zone = 0;
  const bool literal = parse_literal(where, wanted, zone);
  if (literal && wanted.is_ipv4() && base::is_loopback(wanted)) {
    local.gid = wanted;
    local.claim = Claim::exclusive;
    local.interface_mtu = mtu_of("lo");
    return local;
  }

  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0)
    return Error{Code::io_error, std::string("cannot list interfaces: ") + std::strerror(errno)};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, ::freeifaddrs);
  int best = 3;
  std::string known;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const Gid gid = gid_of(entry->ifa_addr);
    known += (known.empty() ? "" : ", ") + std::string(entry->ifa_name) + " " + text_of(gid);
    const bool fits =
        literal ? gid == wanted && (zone == 0 || zone == ::if_nametoindex(entry->ifa_name))
                : where == entry->ifa_name;
    if (!fits || preference(gid) >= best) continue;
    best = preference(gid);
    take(local, *entry, gid, list);
  }
  if (best == 3)
    return Error{Code::not_found, "udp:" + where + " is neither an interface with an IP address " +
                                      "nor a local address; this machine has: " + known};
  return local;
}

}  // namespace weft::port::udp
