// SPDX-License-Identifier: BSD-3-Clause
// The keys of the udp port in a device string, with their defaults and ranges.
#pragma once

#include <cstdint>

#include "lib/transport/port.hpp"
#include "weft/result.hpp"

namespace weft::port::udp {

// `shared`: addresses are, but udp:lo is a device's own.
inline constexpr uint32_t kWhereDecides = 2;

struct Options {
  uint32_t sndbuf = 0;     // send buffer of a transmit socket in bytes, 0 = as large as useful
  uint32_t rcvbuf = 0;     // receive buffer in bytes, 0 = as large as the system allows
  uint32_t gso = 1;        // send trains as one datagram that the kernel or the device cuts
  uint32_t gro = 1;        // let the kernel hand over uncut or merged trains
  uint32_t batch = 16;     // datagrams read by one call at most
  uint32_t busy_poll = 0;  // microseconds that the kernel polls the device queue in a receive
  uint32_t shared = kWhereDecides;  // 1: the address is shared with other devices of this user
  uint32_t switched = 0;            // frames come through a weft_switch, which holds our UDP ports
  uint32_t check_senders = 0;       // datagrams of this host come from ports of the peer's user
  uint32_t mtu = 0;    // payload of a packet; 0 = the largest path MTU of RoCE that fits
  uint32_t ports = 0;  // source ports in use at most; 0 = 16 on loopback, where no path depends on
                       // them, else 1024 or a quarter of the file limit, with check_senders an
                       // eighth: a port has two sockets then
};

// What is added to the UDP ports of an address whose own are held by a switch.
inline constexpr uint16_t kSwitchedShift = 1000;

// An unknown key or a value out of range is an error that lists the valid ones.
Result<Options> parse_options(const transport::PortOptions& options);

}  // namespace weft::port::udp
