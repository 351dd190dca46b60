// SPDX-License-Identifier: BSD-3-Clause
// Addresses as the kernel writes them, and the meaning of WHERE in `udp:WHERE`: an interface name
// or an address literal becomes the local address that the port will own, alone or with others.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "weft/result.hpp"
#include "weft/types.hpp"

namespace weft::port::udp {

inline constexpr uint16_t kRocePort = 4791;  //= roce:C-HDR-7
// Source ports.
inline constexpr uint16_t kFirstSourcePort = 0xC000;  //= roce:C-AV-96
inline constexpr uint32_t kSourcePorts = 0x4000;

// A socket address of either family, and the length that the kernel wants with it.
struct SocketAddress {
  union {
    sockaddr generic;
    sockaddr_in v4;
    sockaddr_in6 v6;
  };
  socklen_t length = 0;

  SocketAddress() : v6{} {}
};

SocketAddress to_socket_address(const Gid& gid, uint16_t port, uint32_t scope) noexcept;
Gid to_gid(const SocketAddress& address) noexcept;
uint16_t port_of(const SocketAddress& address) noexcept;
// The address in the usual notation.
std::string text_of(const Gid& gid);

// How the receive socket takes its address.
enum class Claim : uint8_t {
  any_loopback,  // the first free one of 127.0/16, alone
  exclusive,     // just this one, alone
  shared,        // this one, together with other devices of the same user
  engine,        // this one, which another engine of the same device has
};

struct LocalAddress {
  Gid gid;
  Claim claim = Claim::any_loopback;
  uint32_t scope = 0;      // interface index, for IPv6 link-local addresses
  uint32_t interface = 0;  // index of the one that has the address: multicast goes through it
  uint32_t interface_mtu = 65536;
  bool loopback = true;
  bool engines = false;       // several sockets of this device are bound to it
  uint16_t port = kRocePort;  // where frames of the protocol come to
  uint16_t shift = 0;         // added to it where we bind: a switch holds `port` itself

  bool ipv4() const { return gid.is_ipv4(); }
};

// From one address of 127/8 to the next that a device may have for itself; false: it was the last.
bool next_loopback(Gid& gid) noexcept;

// 127.0.0.1 is the loopback address that devices of one user share, 127.1.0.1 that of the next
// user, and so on: no device has them for itself unless it names them.
inline constexpr uint32_t kSharedLoopbacks = 255;
inline Gid shared_loopback(uint32_t index) noexcept {
  return Gid::from_ipv4(127, static_cast<uint8_t>(index), 0, 1);
}

// What `where` means on this machine: "" and "lo" any free loopback address, 127.x.y.z just that
// one, an interface its first IPv4 (else IPv6) address, another literal that address.
Result<LocalAddress> resolve(const std::string& where);

}  // namespace weft::port::udp
