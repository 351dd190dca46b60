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

// What does not fit a slot, and what makes no sense.
RingConsumer::Take RingConsumer::take_long(transport::Frame& frame, const SlotCopy& copy,
                                           SlotLabel label, Arena& arena,
                                           bool& by_reference) noexcept {
  Take taken = Take::corrupt;
  if (label.kind == SlotKind::split || label.kind == SlotKind::whole) {
    taken = take_data(frame, copy, label, arena);
  } else if (label.kind == SlotKind::reference) {
    taken = take_reference(frame, copy);
    by_reference = true;
  }
  WEFT_DCHECK(arena.used <= arena.size);
  WEFT_DCHECK(taken != Take::frame || frame.more_length <= kLargestFrame);
  if (taken == Take::frame || taken == Take::revoked) ++next_;
  return taken;
}

//= threat:A13
RingConsumer::Take RingConsumer::take_data(transport::Frame& frame, const SlotCopy& copy,
                                           SlotLabel label, Arena& arena) noexcept {
  DataPlace place;
  std::memcpy(&place, copy.body, sizeof place);
  if (place.length == 0 || place.length > kLargestFrame || place.offset > data_size_ ||
      place.length > data_size_ - place.offset)
    return Take::corrupt;
  const std::byte* data = view_.data + place.offset;
  if (label.kind == SlotKind::split) {
    if (frame.length > kDataHead) return Take::corrupt;
    frame.bytes = copy.body + sizeof place;
    frame.more = data;
    frame.more_length = place.length;
    return Take::frame;
  }
  if (label.head_length != 0) return Take::corrupt;
  if (place.length > arena.size - arena.used) return Take::no_room;
  WEFT_DCHECK(arena.used % kCacheLine == 0);
  std::byte* to = arena.memory + arena.used;
  std::memcpy(to, data, place.length);
  frame.bytes = to;
  frame.length = place.length;
  arena.used += (size_t{place.length} + kCacheLine - 1) & ~(kCacheLine - 1);
  return Take::frame;
}

// The claim decides who owns the sender's memory until this slot is released: us, or the sender
// that revokes it (RingProducer::revoke).
RingConsumer::Take RingConsumer::take_reference(transport::Frame& frame,
                                                const SlotCopy& copy) noexcept {
  ReferencePlace place;
  std::memcpy(&place, copy.body, sizeof place);
  if (frame.length > kReferenceHead || place.length == 0 || place.length > kLargestFrame)
    return Take::corrupt;
  Claim& claim = view_.claims[next_ & mask_];
  uint32_t expected = kReady;
  if (!claim.compare_exchange_strong(expected, kClaimed, std::memory_order_acq_rel))
    return Take::revoked;
  frame.bytes = copy.body + sizeof place;
  frame.remote_address = place.address;
  frame.remote_length = static_cast<uint32_t>(place.length);
  return Take::frame;
}

}  // namespace weft::port::shm
