// SPDX-License-Identifier: BSD-3-Clause
// Multicast memberships of the kernel's IP stack. A port that receives frames of a group, even by a
// raw socket, must join it on the interface, so that switches and routers learn of it (IGMP, MLD)
// and the kernel does not drop the frames.
#pragma once

#include <cstdint>

#include "weft/types.hpp"

namespace weft::base {

// The index of the interface with this IP address; 0: there is none.
uint32_t interface_of(const Gid& address) noexcept;

// Joins or leaves `group` on an interface, with a UDP socket of the group's address family. Closing
// the socket ends the membership. False: see errno.
bool change_membership(int socket, uint32_t interface, const Gid& group, bool join) noexcept;

}  // namespace weft::base
