// SPDX-License-Identifier: BSD-3-Clause
// PACKET_RX_RING (TPACKET_V2) of an interface with a filter for one UDP port, ARP and Neighbour
// Discovery: read without a system call for each frame.
//
// TPACKET_V2 and not V3: V3 delivers blocks, when they are full or after a millisecond, which would
// delay a single 8-byte message by that. A frame longer than its slot (an unsegmented GSO packet on
// a veth) lies in the socket's queue; the slot's status says so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "providers/port/ethernet/interface.hpp"
#include "weft/result.hpp"

namespace weft::port::af_packet {

// A received frame, in the ring or in the buffer for long ones; valid until Ring::release().
struct Arrival {
  std::byte* bytes = nullptr;  // Ethernet header first
  uint32_t length = 0;
  uint16_t segment = 0;           // GSO: payload bytes of each segment but the last
  bool checksum_to_come = false;  // CHECKSUM_PARTIAL: the UDP checksum is not filled in
};

class Ring {
 public:
  Ring() = default;
  Ring(Ring&& other) noexcept { *this = static_cast<Ring&&>(other); }
  Ring& operator=(Ring&& other) noexcept;
  ~Ring();

  // Errors: permission_denied (CAP_NET_RAW), io_error, no_memory.
  static Result<Ring> open(const ethernet::Interface& interface, uint16_t udp_port);

  // The next frame, if there is one.
  bool next(Arrival& arrival) noexcept;
  // Gives the oldest `count` frames back to the kernel.
  void release(size_t count) noexcept;

  int fd() const noexcept { return socket_; }
  // Whether next() would return a frame. False if that frame is long and an earlier long one is not
  // released yet: they share a buffer.
  bool has_frame() const noexcept;
  uint64_t take_drops() const noexcept;  // frames that found the ring full, since the last call

 private:
  static constexpr uint32_t kSlots = 2048;

  std::byte* slot(uint32_t index) const noexcept;

  int socket_ = -1;
  std::byte* memory_ = nullptr;
  size_t size_ = 0;
  uint32_t slot_size_ = 0;
  uint32_t oldest_ = 0;  // first slot not released
  uint32_t next_ = 0;
  uint32_t lent_ = 0;
  uint32_t long_slot_ = kSlots;  // slot whose frame lies in long_; kSlots: none
  std::vector<std::byte> long_;
};

}  // namespace weft::port::af_packet
