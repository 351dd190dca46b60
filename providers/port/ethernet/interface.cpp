// SPDX-License-Identifier: BSD-3-Clause
// See interface.hpp.
#include "providers/port/ethernet/interface.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <bit>
#include <cstdio>
#include <cstring>
#include <memory>

#include "lib/base/kernel/socket.hpp"

namespace weft::port::ethernet {
namespace {

Gid ipv4_gid(const void* address) {
  uint8_t b[4];
  std::memcpy(b, address, sizeof b);
  return Gid::from_ipv4(b[0], b[1], b[2], b[3]);
}

uint8_t prefix_of(const uint8_t* mask, size_t length) {
  int bits = 0;
  for (size_t i = 0; i < length; ++i) bits += std::popcount(mask[i]);
  return static_cast<uint8_t>(bits);
}

// True if the entry is an address of `family`.
bool take_address(const ifaddrs& entry, int family, Interface& interface) {
  if (entry.ifa_addr == nullptr || entry.ifa_addr->sa_family != family) return false;
  if (family == AF_INET) {
    sockaddr_in address, mask;
    std::memcpy(&address, entry.ifa_addr, sizeof address);
    std::memcpy(&mask, entry.ifa_netmask, sizeof mask);
    interface.address = ipv4_gid(&address.sin_addr);
    interface.prefix = prefix_of(reinterpret_cast<const uint8_t*>(&mask.sin_addr), 4);
  } else {
    sockaddr_in6 address, mask;
    std::memcpy(&address, entry.ifa_addr, sizeof address);
    std::memcpy(&mask, entry.ifa_netmask, sizeof mask);
    std::memcpy(interface.address.bytes.data(), &address.sin6_addr, 16);
    interface.prefix = prefix_of(mask.sin6_addr.s6_addr, 16);
  }
  return true;
}

void find_address(const std::string& name, Interface& interface) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> list(all, freeifaddrs);
  for (const int family : {AF_INET, AF_INET6})
    for (const ifaddrs* entry = all; entry != nullptr; entry = entry->ifa_next)
      if (name == entry->ifa_name && take_address(*entry, family, interface)) return;
}

// The gateway of the interface's default route, from /proc/net/route.
void find_gateway(const std::string& name, Interface& interface) {
  const std::unique_ptr<FILE, int (*)(FILE*)> routes(std::fopen("/proc/net/route", "r"),
                                                     std::fclose);
  char line[256], device[32];
  uint32_t destination = 0, gateway = 0;
  while (routes && std::fgets(line, sizeof line, routes.get()) != nullptr)
    if (std::sscanf(line, "%31s %x %x", device, &destination, &gateway) == 3 && name == device &&
        destination == 0 && gateway != 0)
      interface.gateway = ipv4_gid(&gateway);
}

}  // namespace

Result<Interface> find_interface(const std::string& name, const std::string& port) {
  Interface interface;
  ifreq request{};
  if (name.empty() || name.size() >= sizeof request.ifr_name)
    return Error{Code::invalid_argument, port + ":INTERFACE wants the name of an interface"};
  std::memcpy(request.ifr_name, name.c_str(), name.size());
  const int any = base::kernel_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC);
  const auto known = [&](unsigned long what) { return ::ioctl(any, what, &request) == 0; };
  const std::unique_ptr<const int, void (*)(const int*)> closing(&any, [](auto* s) { close(*s); });
  if (!known(SIOCGIFINDEX)) return Error{Code::not_found, port + ": there is no interface " + name};
  interface.index = request.ifr_ifindex;
  if (!known(SIOCGIFFLAGS) || (request.ifr_flags & IFF_UP) == 0)
    return Error{Code::not_found, port + ": " + name + " is down: ip link set " + name + " up"};
  if (!known(SIOCGIFHWADDR) || request.ifr_hwaddr.sa_family != ARPHRD_ETHER)
    return Error{Code::not_supported, port + ": " + name + " is no Ethernet"};
  std::memcpy(interface.mac.data(), request.ifr_hwaddr.sa_data, interface.mac.size());
  if (known(SIOCGIFMTU)) interface.mtu = static_cast<uint32_t>(request.ifr_mtu);
  find_address(name, interface);
  if (interface.address.is_ipv4()) find_gateway(name, interface);
  return interface;
}

}  // namespace weft::port::ethernet
