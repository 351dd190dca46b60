// SPDX-License-Identifier: BSD-3-Clause
// GIDs as addresses: conversion from and to socket addresses, and which are loopback.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>

#include "weft/types.hpp"

namespace weft::base {

inline constexpr size_t kIpv4At = 12;  // offset of the four IPv4 bytes in a Gid

// In 127/8, or ::1: packets from other hosts do not reach it.
inline bool is_loopback(const Gid& gid) noexcept {
  if (gid.is_ipv4()) return gid.bytes[kIpv4At] == 127;
  Gid v6;
  v6.bytes[15] = 1;
  return gid == v6;
}

// The GID of an address of AF_INET or AF_INET6; empty for other families.
inline Gid gid_of(const sockaddr_storage& address) noexcept {
  Gid gid;
  if (address.ss_family == AF_INET) {
    uint8_t b[4];
    std::memcpy(b, reinterpret_cast<const std::byte*>(&address) + offsetof(sockaddr_in, sin_addr),
                sizeof b);
    return Gid::from_ipv4(b[0], b[1], b[2], b[3]);
  }
  if (address.ss_family != AF_INET6) return gid;
  std::memcpy(gid.bytes.data(),
              reinterpret_cast<const std::byte*>(&address) + offsetof(sockaddr_in6, sin6_addr),
              gid.bytes.size());
  return gid;
}

// The socket address of a GID. `scope`: interface index of a link-local address.
inline sockaddr_storage socket_address(const Gid& gid, uint16_t port, uint32_t scope = 0) noexcept {
  sockaddr_storage address{};
  if (gid.is_ipv4()) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    std::memcpy(&v4.sin_addr, &gid.bytes[kIpv4At], sizeof v4.sin_addr);
    std::memcpy(&address, &v4, sizeof v4);
    return address;
  }
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  v6.sin6_scope_id = scope;
  std::memcpy(&v6.sin6_addr, gid.bytes.data(), sizeof v6.sin6_addr);
  std::memcpy(&address, &v6, sizeof v6);
  return address;
}

}  // namespace weft::base
