// SPDX-License-Identifier: BSD-3-Clause
// A socket that binds a UDP port of an address and never reads: the kernel sends no ICMP "port
// unreachable" for frames that a raw port receives, and no second device binds the same address.
#pragma once

#include <string>

#include "weft/result.hpp"
#include "weft/types.hpp"

namespace weft::port::ethernet {

// The descriptor, which the caller closes; -1: the kernel does not have the address, so no socket
// can bind it. `scope`: index of the interface. `port`: name for messages, "af_packet". Errors:
// address_in_use, io_error.
Result<int> hold_udp_port(const Gid& address, int scope, uint16_t udp_port,
                          const std::string& port);

}  // namespace weft::port::ethernet
