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
  } else if (label.kind == SlotKind::reference || label.kind == SlotKind::long_reference) {
    taken = take_reference(frame, copy, label, arena);
    by_reference = true;
  }
  WEFT_DCHECK(arena.used <= arena.size);
  WEFT_DCHECK(taken != Take::frame || frame.more_length <= kLargestFrame);
  if (taken == Take::frame || taken == Take::revoked) ++next_;
  return taken;
}

//= threat:A13
bool RingConsumer::lies_inside(const DataPlace& place) const noexcept {
  return place.length != 0 && place.length <= kLargestFrame && place.offset <= data_size_ &&
         place.length <= data_size_ - place.offset;
}

// What the sender must not change once it was looked at: to private memory that has room for it.
void RingConsumer::copy_out(transport::Frame& frame, const DataPlace& place,
                            Arena& arena) const noexcept {
  WEFT_DCHECK(lies_inside(place) && place.length <= arena.size - arena.used);
  WEFT_DCHECK(arena.used % kCacheLine == 0);
  std::byte* to = arena.memory + arena.used;
  std::memcpy(to, view_.data + place.offset, place.length);
  frame.bytes = to;
  frame.length = place.length;
  arena.used += (size_t{place.length} + kCacheLine - 1) & ~(kCacheLine - 1);
}

RingConsumer::Take RingConsumer::take_data(transport::Frame& frame, const SlotCopy& copy,
                                           SlotLabel label, Arena& arena) noexcept {
  DataPlace place;
  std::memcpy(&place, copy.body, sizeof place);
  if (!lies_inside(place)) return Take::corrupt;
  if (label.kind == SlotKind::split) {
    if (frame.length > kDataHead) return Take::corrupt;
    frame.bytes = copy.body + sizeof place;
    frame.more = view_.data + place.offset;
    frame.more_length = place.length;
    return Take::frame;
  }
  if (label.head_length != 0) return Take::corrupt;
  if (place.length > arena.size - arena.used) return Take::no_room;
  copy_out(frame, place, arena);
  return Take::frame;
}

// The claim decides who owns the sender's memory until this slot is released: us, or the sender
// that revokes it (RingProducer::revoke). It is made last: a slot that stays in the ring for want
// of room must not be claimed, and one that makes no sense is not looked at again.
RingConsumer::Take RingConsumer::take_reference(transport::Frame& frame, const SlotCopy& copy,
                                                SlotLabel label, Arena& arena) noexcept {
  ReferencePlace place;
  DataPlace head{};
  std::memcpy(&place, copy.body, sizeof place);
  if (place.length == 0 || place.length > kLargestFrame) return Take::corrupt;
  if (label.kind == SlotKind::long_reference) {
    std::memcpy(&head, copy.body + sizeof place, sizeof head);
    if (label.head_length != 0 || !lies_inside(head) || head.length > kLongReferenceHead)
      return Take::corrupt;
    if (head.length > arena.size - arena.used) return Take::no_room;
  } else if (label.head_length > kReferenceHead) {
    return Take::corrupt;
  }
  Claim& claim = view_.claims[next_ & mask_];
  uint32_t expected = kReady;
  if (!claim.compare_exchange_strong(expected, kClaimed, std::memory_order_acq_rel))
    return Take::revoked;
  if (head.length != 0) {
    copy_out(frame, head, arena);
  } else {
    frame.bytes = copy.body + sizeof place;
  }
  frame.remote_address = place.address;
  frame.remote_length = static_cast<uint32_t>(place.length);
  return Take::frame;
}

}  // namespace weft::port::shm
