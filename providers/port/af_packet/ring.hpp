// SPDX-License-Identifier: BSD-3-Clause
// Frames of one UDP port, and those of neighbours, as they come from an interface: a ring that the
// kernel fills and this process reads, without a system call for each.
//
// TPACKET_V2 and not V3: V3 hands over blocks of frames, when they are full or after a millisecond,
// and one 8-byte message would wait that long. A frame longer than its slot (a train that was never
// cut, on a veth say) lies in the socket's queue; the slot says so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "providers/port/ethernet/interface.hpp"
#include "weft/result.hpp"

namespace weft::port::af_packet {

// A frame in the ring, or in the ring's own buffer; valid until Ring::release().
struct Arrival {
  std::byte* bytes = nullptr;  // Ethernet header first
  uint32_t length = 0;
  uint16_t segment = 0;           // a train: what every segment but the last carries behind UDP
  bool checksum_to_come = false;  // the sender left the UDP checksum to a device that it never met
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
  // next() would find a frame. False too when that frame is long and the one before it that was
  // long is not released yet: they share a buffer.
  bool waits() const noexcept;
  uint64_t take_drops() const noexcept;  // frames that found the ring full, since the last call

 private:
  static constexpr uint32_t kSlots = 2048;

  std::byte* slot(uint32_t index) const noexcept;

  int socket_ = -1;
  std::byte* memory_ = nullptr;
  size_t size_ = 0;
  uint32_t slot_size_ = 0;
  uint32_t oldest_ = 0;  // the first slot that is not released
  uint32_t next_ = 0;
  uint32_t lent_ = 0;
  uint32_t long_slot_ = kSlots;  // whose frame lies in long_; kSlots: none
  std::vector<std::byte> long_;
};

}  // namespace weft::port::af_packet
