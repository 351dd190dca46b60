// SPDX-License-Identifier: BSD-3-Clause
// The receiving side of a ring. See ring.hpp.
#include <cstring>

#include "lib/base/check.hpp"
#include "providers/port/shm/ring.hpp"

namespace weft::port::shm {

RingConsumer::RingConsumer(std::byte* memory, const RingGeometry& geometry)
    : view_(memory, geometry), mask_(geometry.slots - 1), data_size_(geometry.data_bytes) {
  WEFT_CHECK(geometry.valid());
}

RingConsumer::Take RingConsumer::take(engine::Frame& frame, Slot& copy, Arena& arena,
                                      bool& by_reference) noexcept {
  Slot& shared = view_.slots[next_ & mask_];
  if (shared.sequence.load(std::memory_order_acquire) != static_cast<uint32_t>(next_ + 1))
    return Take::empty;
  // From here on only the copy counts: the sender may go on writing. The fence keeps the compiler
  // from reading the shared line again.
  std::memcpy(&copy.head_length, &shared.head_length, sizeof copy - offsetof(Slot, head_length));
  std::atomic_signal_fence(std::memory_order_seq_cst);

  frame = engine::Frame{};
  frame.ecn = copy.ecn & 3;
  frame.bytes = copy.body;
  frame.length = copy.head_length;
  by_reference = false;
  Take taken = Take::frame;
  switch (static_cast<SlotKind>(copy.kind)) {
    case SlotKind::inline_frame:
      if (copy.head_length > sizeof copy.body) return Take::corrupt;
      break;
    case SlotKind::split:
    case SlotKind::whole:
      taken = take_data(frame, copy, arena);
      break;
    case SlotKind::reference:
      taken = take_reference(frame, copy);
      by_reference = true;
      break;
    default:
      return Take::corrupt;
  }
  if (taken == Take::frame || taken == Take::revoked) ++next_;
  return taken;
}

//= threat:A13
RingConsumer::Take RingConsumer::take_data(engine::Frame& frame, const Slot& copy,
                                           Arena& arena) noexcept {
  const auto& body = *reinterpret_cast<const DataBody*>(copy.body);
  if (body.length == 0 || body.length > kLargestFrame || body.offset > data_size_ ||
      body.length > data_size_ - body.offset)
    return Take::corrupt;
  const std::byte* data = view_.data + body.offset;
  if (static_cast<SlotKind>(copy.kind) == SlotKind::split) {
    if (copy.head_length > sizeof body.head) return Take::corrupt;
    frame.bytes = body.head;
    frame.more = data;
    frame.more_length = body.length;
    return Take::frame;
  }
  if (copy.head_length != 0) return Take::corrupt;
  if (body.length > arena.left) return Take::no_room;
  std::memcpy(arena.at, data, body.length);
  frame.bytes = arena.at;
  frame.length = body.length;
  const size_t used = (size_t{body.length} + kCacheLine - 1) & ~(kCacheLine - 1);
  arena.at += used;
  arena.left -= used < arena.left ? used : arena.left;
  return Take::frame;
}

// The claim decides who owns the sender's memory until this slot is given back: us, or the sender
// who wants it back (RingProducer::revoke).
RingConsumer::Take RingConsumer::take_reference(engine::Frame& frame, const Slot& copy) noexcept {
  const auto& body = *reinterpret_cast<const ReferenceBody*>(copy.body);
  if (copy.head_length > sizeof body.head || body.length == 0 || body.length > kLargestFrame)
    return Take::corrupt;
  Claim& claim = view_.claims[next_ & mask_];
  uint32_t expected = kReady;
  if (!claim.compare_exchange_strong(expected, kClaimed, std::memory_order_acq_rel))
    return Take::revoked;
  frame.bytes = body.head;
  frame.remote_address = body.address;
  frame.remote_length = body.length;
  return Take::frame;
}

}  // namespace weft::port::shm
