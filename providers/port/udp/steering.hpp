// SPDX-License-Identifier: BSD-3-Clause
// Which member of an address a frame is for (lib/transport/shared_address.hpp). The rule exists
// twice: as a function, which decides, and as a classic BPF program by which the kernel selects the
// socket, which only makes it rare that a frame must be forwarded.
#pragma once

#include <cstddef>
#include <cstdint>

#include "providers/port/udp/group_table.hpp"

namespace weft::port::udp {

// The slot of the member, which no member may have; 0: the frame names none.
Slot owner_of(const std::byte* frame, uint32_t length, const GroupTable& table) noexcept;

// Attaches the program for the present order of sockets to the group of the socket `udp`. False:
// the kernel refused it, and selects sockets by the hash of addresses and ports.
bool attach_steering(int udp, const GroupTable& table);

}  // namespace weft::port::udp
