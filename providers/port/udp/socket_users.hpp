// SPDX-License-Identifier: BSD-3-Clause
// Which user has a UDP socket of this network namespace, from the kernel's table of sockets
// (sock_diag). Any process may ask.
#pragma once

#include <cstdint>
#include <optional>

#include "providers/port/udp/address.hpp"
#include "providers/port/udp/descriptor.hpp"

namespace weft::port::udp {

class SocketUsers {
 public:
  explicit SocketUsers(bool ipv4) noexcept;

  // The user of the socket that is bound to the port of `address`. Empty: there is none, or the
  // kernel does not say.
  std::optional<uint32_t> user_of(const Gid& address, uint16_t port, uint32_t scope) const noexcept;
  // The user that holds the port on all addresses, so that a process of another user can bind it on
  // none (hold_port()). Empty: no user does.
  std::optional<uint32_t> user_everywhere(uint16_t port) noexcept;

 private:
  struct Found {
    uint32_t user;
    bool everywhere;  // bound to all addresses
  };
  std::optional<Found> find(const Gid& address, uint16_t port, uint32_t scope) const noexcept;
  bool is_shared_with_others(uint16_t port) noexcept;

  bool ipv4_;
  Descriptor table_;
  Descriptor probe_;  // with SO_REUSEADDR, never bound for long
};

}  // namespace weft::port::udp
