// SPDX-License-Identifier: BSD-3-Clause
// Processes that share one address. The kernel spreads datagrams over their SO_REUSEPORT sockets;
// the owner of a frame is known by the top byte of its destination QPN, the slot. A slot is claimed
// by binding the abstract unix socket weft-udp/UID/ADDRESS/SLOT (such names are local to the
// network namespace), which the kernel frees with its process, however that dies. A frame that
// reached the wrong process goes to its owner over that socket; so do frames for no slot (QPN 1,
// multicast, unknown queue pairs), which belong to the lowest one. A classic BPF program makes this
// rare by steering on the same byte; nothing depends on it.
#pragma once

#include <bitset>
#include <cstdint>
#include <memory>
#include <string>

#include "providers/port/udp/address.hpp"
#include "providers/port/udp/descriptor.hpp"
#include "providers/port/udp/message.hpp"
#include "weft/result.hpp"

namespace weft::port::udp {

class AddressGroup {
 public:
  struct Counters {
    uint64_t forwarded = 0;         // frames sent on to their owner
    uint64_t forward_drops = 0;     // frames lost because their owner's queue was full
    uint64_t forward_received = 0;  // messages that other members sent on to us
    uint64_t forward_refused = 0;   // messages on our socket that no member of our group sent
  };

  // Claims the lowest free slot from `first` to `last`. Call before binding the receive socket:
  // steering assumes that slots and sockets are in the same order.
  static Result<std::unique_ptr<AddressGroup>> join(const LocalAddress& local, uint8_t first,
                                                    uint8_t last);
  // Attaches the steering program to the group of `udp`; failing only costs forwarding.
  void steer(int udp) const noexcept;

  uint8_t slot() const noexcept { return slot_; }
  int fd() const noexcept { return socket_.fd(); }
  const Counters& counters() const noexcept { return counters_; }

  // The slot that a frame is for.
  static uint8_t slot_of(const std::byte* frame, uint32_t length) noexcept {
    constexpr uint32_t kQpnTopByte = 5;  // of the BTH
    return length > kQpnTopByte ? static_cast<uint8_t>(frame[kQpnTopByte]) : 0;
  }
  // Sends `length` bytes of `message` from its offset on to the owner of `slot`. False: that is us.
  bool forward(uint8_t slot, const Message& message, uint32_t length) noexcept;
  // Reads one forwarded message into message.bytes.
  bool receive(Message& message, size_t capacity) noexcept;

 private:
  AddressGroup() = default;
  enum class Sent : uint8_t { yes, dropped, no_such_slot };
  Sent send_to(uint8_t slot, const Message& message, uint32_t length) noexcept;

  Descriptor socket_;
  std::string prefix_;  // the name up to the slot
  uint8_t slot_ = 0;
  uint8_t lowest_ = 1;          // no slot below it has an owner
  std::bitset<256> ownerless_;  // slots that had no owner lately
  uint32_t until_refresh_ = 0;  // forwards until both are looked up again
  Counters counters_;
};

}  // namespace weft::port::udp
