// SPDX-License-Identifier: BSD-3-Clause
// The XDP program of an interface: a few dozen instructions, written here, so that no compiler is
// needed. It looks up the filter of the receive queue in one map and redirects matching frames to
// the queue's socket in an XSKMAP; all others pass to the kernel.
#pragma once

#include <linux/bpf.h>

#include <cstdint>
#include <vector>

#include "lib/base/bytes.hpp"
#include "weft/types.hpp"

namespace weft::port::af_xdp {

inline constexpr uint32_t kQueues = 256;  // entries of each map; the key is the queue

// A value of the first map: frames to redirect. All zero: none.
struct User {
  base::Be16 ether_type;  // of IPv4 or IPv6
  base::Be16 udp_port;
  Gid address;  // frames to it, and to multicast groups

  static User of(const Gid& address, uint16_t udp_port);
};
static_assert(sizeof(User) == 20);

// `users` and `sockets`: descriptors of the maps, an array and an XSKMAP.
std::vector<bpf_insn> program_of(int users, int sockets);

}  // namespace weft::port::af_xdp
