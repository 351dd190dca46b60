// SPDX-License-Identifier: BSD-3-Clause
// A network interface as the kernel describes it: addresses, MTU and gateway for a port that sends
// raw frames through it.
#pragma once

#include <cstdint>
#include <string>

#include "lib/wire/encapsulation.hpp"
#include "weft/result.hpp"

namespace weft::port::ethernet {

struct Interface {
  int index = 0;
  wire::MacAddress mac{};
  uint32_t mtu = 0;
  Gid address;         // the first IPv4 address, else the first IPv6 address; all zero: none
  uint8_t prefix = 0;  // prefix length of the link
  Gid gateway;         // of the interface's default route (IPv4); all zero: none
};

// For messages: `port`, "af_packet". Errors: not_found (no such interface, or it is down),
// not_supported (no Ethernet).
Result<Interface> find_interface(const std::string& name, const std::string& port);

}  // namespace weft::port::ethernet
