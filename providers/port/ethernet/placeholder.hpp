// SPDX-License-Identifier: BSD-3-Clause
// A socket that takes a UDP port of an address and never reads: the kernel does not answer "port
// unreachable" to what a raw port receives beside it, and no second device takes the same address.
#pragma once

#include <string>

#include "weft/result.hpp"
#include "weft/types.hpp"

namespace weft::port::ethernet {

// The descriptor, which the caller closes; -1: the kernel does not have the address, so nobody can
// take it. `scope`: index of the interface. For messages: `port`, "af_packet". Errors:
// address_in_use, io_error.
Result<int> hold_udp_port(const Gid& address, int scope, uint16_t udp_port,
                          const std::string& port);

}  // namespace weft::port::ethernet
