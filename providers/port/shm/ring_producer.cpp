// SPDX-License-Identifier: BSD-3-Clause
// The sending side of a ring. See ring.hpp.
#include <cstring>
#include <new>

#include "lib/base/check.hpp"
#include "lib/memory/guarded_copy.hpp"
#include "providers/port/shm/ring.hpp"

namespace weft::port::shm {

namespace {

bool copy_spans(std::byte* to, const transport::TxFrame& frame) {
  for (uint32_t i = 0; i < frame.span_count; ++i) {
    const transport::Span& span = frame.spans[i];
    if (!memory::copy_out(to, span.data, span.length)) return false;
    to += span.length;
  }
  return true;
}

}  // namespace

RingView::RingView(std::byte* memory, const RingGeometry& geometry)
    : control(std::launder(reinterpret_cast<RingControl*>(memory))),
      slots(std::launder(reinterpret_cast<Slot*>(memory + RingGeometry::kControlBytes))),
      claims(std::launder(reinterpret_cast<Claim*>(slots + geometry.slots))),
      data(memory + geometry.data_offset()) {}

RingProducer::RingProducer(std::byte* memory, const RingGeometry& geometry)
    : view_(memory, geometry),
      mask_(geometry.slots - 1),
      data_size_(geometry.data_bytes),
      uses_(new DataUse[geometry.slots]) {
  WEFT_CHECK(geometry.valid());
}

RingProducer::Push RingProducer::push(const transport::TxFrame& frame, bool by_reference) noexcept {
  if (produced_ - consumed_ > mask_) {
    if (!refresh()) return Push::corrupt;
    if (produced_ - consumed_ > mask_) return Push::full;
  }
  Slot& slot = view_.slots[produced_ & mask_];
  if (frame.length() <= sizeof slot.body) return push_inline(frame, slot);
  return push_data(frame, slot, by_reference);
}

RingProducer::Push RingProducer::push_inline(const transport::TxFrame& frame, Slot& slot) noexcept {
  std::byte* at = slot.body;
  base::copy_short(at, frame.head, frame.head_length);
  at += frame.head_length;
  if (frame.span_count != 0) {
    if (!copy_spans(at, frame)) return Push::unreadable;
    at += frame.payload_length;
  }
  if (frame.tail_length != 0) base::copy_short(at, frame.tail, frame.tail_length);
  publish(slot, SlotKind::inline_frame, frame.length(), frame.ecn);
  return Push::taken;
}

RingProducer::Push RingProducer::push_data(const transport::TxFrame& frame, Slot& slot,
                                           bool by_reference) noexcept {
  const uint32_t total = frame.length();
  WEFT_DCHECK(total > sizeof slot.body && frame.head_length >= frame.header_length);
  if (total > kLargestFrame) return Push::too_long;
  const uint32_t header = frame.header_length != 0 ? frame.header_length : frame.head_length;
  const bool apart = frame.tail_length == 0 && header < total;
  if (by_reference && apart && frame.stable && frame.span_count == 1 &&
      header == frame.head_length && header <= kLongReferenceHead)
    return push_reference(frame, slot);

  const bool split = apart && header <= kDataHead;
  const uint32_t skipped = split ? header : 0;
  uint64_t position;
  if (const Push reserved = reserve(total - skipped, position); reserved != Push::taken)
    return reserved;
  WEFT_DCHECK(position >= data_head_ && skipped <= frame.head_length);
  std::byte* at = view_.data + (position & (data_size_ - 1));
  WEFT_DCHECK(at + (total - skipped) <= view_.data + data_size_);
  const DataPlace place{static_cast<uint32_t>(at - view_.data), total - skipped};
  std::memcpy(slot.body, &place, sizeof place);
  base::copy_short(slot.body + sizeof place, frame.head, skipped);
  std::memcpy(at, frame.head + skipped, frame.head_length - skipped);
  at += frame.head_length - skipped;
  if (!copy_spans(at, frame)) return Push::unreadable;
  std::memcpy(at + frame.payload_length, frame.tail, frame.tail_length);
  hold(position + (total - skipped), {});
  publish(slot, split ? SlotKind::split : SlotKind::whole, skipped, frame.ecn);
  return Push::taken;
}

RingProducer::Push RingProducer::push_reference(const transport::TxFrame& frame,
                                                Slot& slot) noexcept {
  const uint32_t head = frame.head_length, payload = frame.payload_length;
  WEFT_DCHECK(head + payload == frame.length() && head <= kLongReferenceHead && payload != 0);
  const bool fits = head <= kReferenceHead;
  const ReferencePlace place{reinterpret_cast<uint64_t>(frame.spans[0].data), payload};
  uint64_t data_end = data_head_;
  if (fits) {
    base::copy_short(slot.body + sizeof place, frame.head, head);
  } else {
    uint64_t position;
    if (const Push reserved = reserve(head, position); reserved != Push::taken) return reserved;
    const DataPlace head_place{static_cast<uint32_t>(position & (data_size_ - 1)), head};
    std::memcpy(view_.data + head_place.offset, frame.head, head);
    std::memcpy(slot.body + sizeof place, &head_place, sizeof head_place);
    data_end = position + head;
  }
  std::memcpy(slot.body, &place, sizeof place);
  view_.claims[produced_ & mask_].store(kReady, std::memory_order_relaxed);
  hold(data_end, place);
  publish(slot, fits ? SlotKind::reference : SlotKind::long_reference, fits ? head : 0, frame.ecn);
  return Push::taken;
}

// The slot that is published next holds on to the data ring up to `data_end`, and to the memory
// that `reference` names, until it is consumed.
void RingProducer::hold(uint64_t data_end, const ReferencePlace& reference) noexcept {
  WEFT_DCHECK(uses_head_ - uses_tail_ <= mask_ && data_end >= data_head_);
  data_head_ = (data_end + kCacheLine - 1) & ~uint64_t{kCacheLine - 1};
  uses_[uses_head_++ & mask_] = {produced_, data_head_, reference.address,
                                 static_cast<uint32_t>(reference.length)};
  check_invariants();
}

// Finds `length` consecutive bytes in the data ring; they are taken by hold().
RingProducer::Push RingProducer::reserve(uint32_t length, uint64_t& position) noexcept {
  WEFT_DCHECK(length != 0);
  if (length > data_size_) return Push::too_long;
  if (find_room(length, position)) return Push::taken;
  if (!refresh()) return Push::corrupt;
  return find_room(length, position) ? Push::taken : Push::full;
}

bool RingProducer::find_room(uint32_t length, uint64_t& position) const noexcept {
  position = data_head_;
  const uint64_t offset = position & (data_size_ - 1);
  if (offset + length > data_size_) position += data_size_ - offset;
  return position + length - data_tail_ <= data_size_;
}

//= threat:A13
bool RingProducer::refresh() noexcept {
  const uint64_t seen = view_.control->consumed.load(std::memory_order_acquire);
  if (seen - consumed_ > produced_ - consumed_) return false;
  consumed_ = seen;
  while (uses_tail_ != uses_head_ && uses_[uses_tail_ & mask_].index < consumed_)
    data_tail_ = uses_[uses_tail_++ & mask_].data_end;
  // All free: start over where the data is still in the caches.
  if (uses_tail_ == uses_head_) data_head_ = data_tail_ = 0;
  check_invariants();
  return true;
}

uint64_t RingProducer::revoke(const std::byte* base, size_t size) noexcept {
  uint64_t wait_for = 0;
  const uint64_t first = reinterpret_cast<uint64_t>(base);
  for (uint64_t i = uses_tail_; i != uses_head_; ++i) {
    const DataUse& use = uses_[i & mask_];
    WEFT_DCHECK(use.index < produced_ && use.index >= consumed_);
    const bool overlaps = use.length != 0 && use.address - first < size;
    const bool reaches_in = use.length != 0 && first - use.address < use.length;
    if (!overlaps && !reaches_in) continue;
    uint32_t expected = kReady;
    Claim& claim = view_.claims[use.index & mask_];
    if (claim.compare_exchange_strong(expected, kRevoked, std::memory_order_acq_rel)) continue;
    if (expected != kRevoked) wait_for = use.index + 1;
  }
  return wait_for;
}

}  // namespace weft::port::shm
