// SPDX-License-Identifier: BSD-3-Clause
// Multicast groups of the kernel's IP stack: who wants frames of a group must have it joined on the
// interface, also if he reads them in another way, so that switches and routers hear of it (IGMP,
// MLD) and the kernel does not throw them away.
#pragma once

#include <cstdint>

#include "weft/types.hpp"

namespace weft::base {

// The index of the interface that has this IP address; 0: none has.
uint32_t interface_of(const Gid& address) noexcept;

// Joins `group` on an interface, or leaves it, with a UDP socket of the group's address family; the
// membership ends with the socket at the latest. False: errno says why.
bool change_membership(int socket, uint32_t interface, const Gid& group, bool join) noexcept;

}  // namespace weft::base
