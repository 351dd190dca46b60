// SPDX-License-Identifier: BSD-3-Clause
// Devices that share an address. Each has a slot, the upper 8 bits of its queue pair numbers and
// communication IDs, by which a port finds the one that a frame is for. At queue pair 1 the
// management datagram (MAD) tells it: a request (REQ, SIDR_REQ) is for the listener of its service,
// every other MAD for the device whose communication ID it names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "lib/base/check.hpp"
#include "lib/transport/port.hpp"

namespace weft::transport {

using Slot = uint8_t;                   // 0: none
inline constexpr Slot kFirstSlot = 1;   // 0 holds QPN 0 and 1
inline constexpr Slot kLastSlot = 254;  // 255 holds the multicast QPN

// The queue pair numbers of a slot; and the slot of a port, 0 if its address is its own.
inline Port::QpnRange qpn_range_of(Slot slot) noexcept {
  WEFT_DCHECK(slot >= kFirstSlot && slot <= kLastSlot);
  return {static_cast<uint32_t>(slot) << 16, 1u << 16};
}
inline Slot slot_of(const Port& port) noexcept {
  const Port::QpnRange range = port.qpn_range();
  return range.count == 1u << 16 ? static_cast<Slot>(range.first >> 16) : Slot{0};
}

// True: the frame names its slot by its queue pair number, as all but those to queue pair 1 do.
inline constexpr uint32_t kQpnTopByte = 5;  // in the BTH
inline Slot slot_by_queue_pair(const std::byte* frame) noexcept {
  WEFT_DCHECK(frame != nullptr);
  return static_cast<Slot>(frame[kQpnTopByte]);
}
inline bool names_queue_pair(const std::byte* frame, uint32_t length) noexcept {
  return length > kQpnTopByte && slot_by_queue_pair(frame) != 0;
}

// Offsets in a frame with a MAD of the communication management class (IBTA 12.6).
struct MadOffsets {
  static constexpr uint32_t kMad = 12 + 8;           // behind BTH and DETH
  static constexpr uint32_t kAttribute = kMad + 16;  // 16 bits
  static constexpr uint32_t kBody = kMad + 24;
  static constexpr uint32_t kRequestId = kBody;     // SIDR_REP: the requester's ID
  static constexpr uint32_t kRemoteId = kBody + 4;  // all but requests and SIDR_REP
  static constexpr uint32_t kService = kBody + 8;   // REQ, SIDR_REQ: 64 bits
  static constexpr uint32_t kEnd = kService + 8;
  static constexpr uint16_t kReq = 0x10, kSidrReq = 0x17, kSidrRep = 0x18;
};

// Which device a frame is for: a slot, 0 if the frame names none, or the listener of a service.
struct Addressee {
  Slot slot = 0;
  std::optional<uint64_t> service{};
};
Addressee addressee_of(const std::byte* frame, uint32_t length) noexcept;
// Of a frame to send, whose MAD may lie in its spans.
Addressee addressee_of(const TxFrame& frame) noexcept;

}  // namespace weft::transport
