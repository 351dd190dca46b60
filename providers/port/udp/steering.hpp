// SPDX-License-Identifier: BSD-3-Clause
// Which member of an address a frame is for: by its destination queue pair, and at queue pair 1 by
// the management datagram (MAD). A request (REQ, SIDR_REQ) goes to the listener of its service,
// every other MAD to the member whose communication ID it names. The rule exists twice: as a
// function, which decides, and as a classic BPF program by which the kernel selects the socket,
// which only makes it rare that a frame must be forwarded.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/base/check.hpp"
#include "providers/port/udp/group_table.hpp"

namespace weft::port::udp {

// The slot of the member, which no member may have; 0: the frame names none.
Slot owner_of(const std::byte* frame, uint32_t length, const GroupTable& table) noexcept;

// True: the frame names its member by its queue pair number, as all but those to queue pair 1 do.
inline constexpr uint32_t kQpnTopByte = 5;  // in the BTH
inline Slot owner_by_queue_pair(const std::byte* frame) noexcept {
  WEFT_DCHECK(frame != nullptr);
  return static_cast<Slot>(frame[kQpnTopByte]);
}
inline bool names_queue_pair(const std::byte* frame, uint32_t length) noexcept {
  return length > kQpnTopByte && owner_by_queue_pair(frame) != 0;
}

// Attaches the program for the present order of sockets to the group of the socket `udp`. False:
// the kernel refused it, and selects sockets by the hash of addresses and ports.
bool attach_steering(int udp, const GroupTable& table);

}  // namespace weft::port::udp
