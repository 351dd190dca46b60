// SPDX-License-Identifier: BSD-3-Clause
// Lists of buffered packets in slots of one pool, and the adaptive delay of the NAK.
#include "lib/roce/state/early_packets.hpp"

#include <algorithm>
#include <cstring>

namespace weft::roce {

uint16_t early_window(Rate line, Duration rtt, uint32_t mtu) noexcept {
  if (line.bits_per_second == 0) return kEarlyWindow;
  const int64_t packets = rtt.ps / line.time_for(mtu).ps;
  return static_cast<uint16_t>(std::clamp<int64_t>(packets, kEarlyWindow, kMostEarlyWindow));
}

EarlyPackets::EarlyPackets(uint16_t slots)
    : slot_count_(slots),
      slots_(new Slot[slots]),
      bytes_(new std::byte[slots * size_t{kSlotBytes}]) {
  WEFT_CHECK(slots != 0 && slots != kNoSlot);
  for (uint16_t i = 0; i + 1 < slots; ++i) slots_[i].next = static_cast<uint16_t>(i + 1);
}

EarlyPackets::Kept EarlyPackets::keep(EarlyList& list, Psn psn, uint32_t packets, Frame frame,
                                      uint32_t icrc_length) noexcept {
  WEFT_DCHECK(list.empty() == (list.last == kNoSlot));
  WEFT_DCHECK(frame.length >= icrc_length);
  frame.length -= icrc_length;
  // Nearly always behind the last.
  uint16_t before = list.last;
  while (before != kNoSlot && slots_[before].psn - psn > 0) before = slots_[before].previous;
  if (before != kNoSlot && slots_[before].psn == psn) {
    if (same(before, frame)) return Kept::already;
    drop(list, before);
    return Kept::conflict;
  }
  if (frame.remote_length != 0 || frame.length + frame.more_length > kSlotBytes || free_ == kNoSlot)
    return Kept::no;
  const uint16_t index = free_;
  WEFT_DCHECK(index < slot_count_);
  Slot& slot = slots_[index];
  free_ = slot.next;
  std::memcpy(bytes(index), frame.bytes, frame.length);
  if (frame.more_length != 0)
    std::memcpy(bytes(index) + frame.length, frame.more, frame.more_length);
  slot.psn = psn;
  slot.packets = packets;
  slot.length = frame.length;
  slot.more_length = frame.more_length;
  slot.previous = before;
  slot.next = before == kNoSlot ? list.first : slots_[before].next;
  (before == kNoSlot ? list.first : slots_[before].next) = index;
  (slot.next == kNoSlot ? list.last : slots_[slot.next].previous) = index;
  return Kept::yes;
}

Frame EarlyPackets::first(const EarlyList& list) const noexcept {
  WEFT_DCHECK(!list.empty());
  Frame frame;
  frame.bytes = bytes(list.first);
  frame.length = slots_[list.first].length;
  frame.more = frame.bytes + frame.length;
  frame.more_length = slots_[list.first].more_length;
  return frame;
}

void EarlyPackets::map(const EarlyList& list, Psn expected,
                       std::span<std::byte> bitmap) const noexcept {
  const auto bits = static_cast<int32_t>(bitmap.size() * 8);
  for (uint16_t at = list.first; at != kNoSlot; at = slots_[at].next) {
    const Slot& slot = slots_[at];
    const auto packets = static_cast<int32_t>(slot.packets);
    const int32_t from = slot.psn - expected;
    if (from >= bits) return;
    const bool behind =
        slot.next != kNoSlot && slots_[slot.next].psn - slot.psn - packets < kConfirmedBy;
    if (!behind && !follows(slot)) continue;
    for (int32_t bit = std::max(from, 0); bit < std::min(from + packets, bits); ++bit)
      bitmap[static_cast<size_t>(bit) / 8] |= std::byte{1} << (bit % 8);
  }
}

// The packet before it is early, too.
bool EarlyPackets::follows(const Slot& slot) const noexcept {
  if (slot.previous == kNoSlot) return false;
  const Slot& before = slots_[slot.previous];
  return slot.psn - before.psn == static_cast<int32_t>(before.packets);
}

// Compares all but what may differ between two copies: the A bit. The ICRC, which covers the IP
// identification, is not kept.
bool EarlyPackets::same(uint16_t slot, const Frame& frame) const noexcept {
  constexpr uint32_t kA = 8;  // the byte of the A bit
  const Slot& s = slots_[slot];
  if (s.length != frame.length || s.more_length != frame.more_length) return false;
  WEFT_DCHECK(frame.length >= kA + 1);
  const std::byte* const ours = bytes(slot);
  return std::memcmp(ours, frame.bytes, kA) == 0 &&
         ((ours[kA] ^ frame.bytes[kA]) & std::byte{0x7F}) == std::byte{} &&
         std::memcmp(ours + kA + 1, frame.bytes + kA + 1, frame.length - kA - 1) == 0 &&
         (s.more_length == 0 || std::memcmp(ours + s.length, frame.more, s.more_length) == 0);
}

void EarlyPackets::drop(EarlyList& list, uint16_t index) noexcept {
  WEFT_DCHECK(index < slot_count_);
  Slot& slot = slots_[index];
  WEFT_DCHECK(slot.previous != kNoSlot || list.first == index);
  WEFT_DCHECK(slot.next != kNoSlot || list.last == index);
  (slot.previous == kNoSlot ? list.first : slots_[slot.previous].next) = slot.next;
  (slot.next == kNoSlot ? list.last : slots_[slot.next].previous) = slot.previous;
  slot.next = free_;
  free_ = index;
}

void EarlyPackets::clear(EarlyList& list) noexcept {
  while (!list.empty()) drop_first(list);
  WEFT_DCHECK(list.last == kNoSlot);
}

void EarlyPackets::check([[maybe_unused]] const EarlyList& list, [[maybe_unused]] Psn expected,
                         [[maybe_unused]] int32_t window) const noexcept {
#ifndef NDEBUG
  WEFT_DCHECK(list.empty() == (list.last == kNoSlot));
  uint16_t before = kNoSlot;
  for (uint16_t at = list.first; at != kNoSlot; at = slots_[at].next) {
    const Slot& slot = slots_[at];
    WEFT_DCHECK(slot.previous == before);
    WEFT_DCHECK(before == kNoSlot || slot.psn - slots_[before].psn > 0);
    WEFT_DCHECK(slot.psn - expected < window);
    WEFT_DCHECK(slot.length + slot.more_length <= kSlotBytes);
    before = at;
  }
  WEFT_DCHECK(before == list.last);
#endif
}

void Gap::open(Instant now, bool may_be_forged) noexcept {
  WEFT_DCHECK(since.is_never());
  since = now;
  unconfirmed = may_be_forged;
  // A packet that may be forged must come again. After a NAK the peer goes back and sends it soon,
  // at most as long after the one before as that took to come; else it must be asked to.
  const Duration again =
      nak_judged ? kMinNakDelay : std::clamp(lateness, kMinNakDelay, kMaxNakDelay);
  nak_at = now + (may_be_forged ? again : nak_delay);
}

void Gap::close(Psn psn, bool after_nak, Instant now) noexcept {
  if (since.is_never()) return;
  if (unconfirmed) {
    since = nak_at = Instant::never();
    return;
  }
  WEFT_DCHECK(now >= since);
  if (!nak_judged) {  // the packet requested by the previous NAK arrived only once: it was lost
    nak_delay = std::max(kMinNakDelay, Duration{nak_delay.ps - nak_delay.ps / 8});
    if (reordered != 0) --reordered;
  }
  lateness = now - since;
  nak_judged = !after_nak;
  nak_psn = psn;
  if (!after_nak) grow(lateness);
  since = nak_at = Instant::never();
}

void Gap::on_duplicate(Psn psn) noexcept {
  if (nak_judged || psn != nak_psn) return;
  nak_judged = true;
  grow(lateness);
}

void Gap::grow(Duration by) noexcept {
  reordered = kRemembered;
  nak_delay = std::clamp(by + by, nak_delay, std::max(nak_delay, kMaxNakDelay));
  WEFT_DCHECK(nak_delay >= kMinNakDelay);
}

}  // namespace weft::roce
