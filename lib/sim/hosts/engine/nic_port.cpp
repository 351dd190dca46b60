// SPDX-License-Identifier: BSD-3-Clause
// See nic_port.hpp.
#include "lib/sim/hosts/engine/nic_port.hpp"

#include "lib/sim/frames/network.hpp"

namespace weft::sim::engines {

Gid address_of(uint32_t node) noexcept { return host_address(node); }

uint32_t node_of(const Gid& address) noexcept {
  uint32_t number = 0;
  for (size_t i = 12; i < 16; ++i) number = number << 8 | address.bytes[i];
  return number - 1;
}

NicPort::NicPort(uint32_t node) : address_(address_of(node)) {
  capabilities_.burst = 1;
  capabilities_.integrity_bits = 0;
  capabilities_.gather = true;
  capabilities_.ecn = true;
  capabilities_.in_flight_limit = 1u << 31;  // windows are the controller's
  capabilities_.packet_overhead = 0;
}

}  // namespace weft::sim::engines
