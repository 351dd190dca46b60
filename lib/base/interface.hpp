// SPDX-License-Identifier: BSD-3-Clause
// What the kernel says of a network interface: its name, whether it works, its speed and its
// addresses. Each call asks anew.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/types.hpp"

namespace weft::base {

// The index of the interface that packets from `address` leave on: the one that has it, for all of
// 127/8 the loopback interface. 0: there is none.
uint32_t interface_for(const Gid& address) noexcept;

struct InterfaceState {
  std::string name;         // empty: there is no such interface
  bool works = false;       // up, with a carrier
  uint32_t speed_mbps = 0;  // 0: its driver does not know
  bool loopback = false;
};
InterfaceState interface_state(uint32_t interface);

// Its addresses, IPv4 before IPv6, otherwise in the kernel's order.
std::vector<Gid> addresses_of(uint32_t interface);
// The addresses of all interfaces.
std::vector<Gid> addresses_of_host();

}  // namespace weft::base
