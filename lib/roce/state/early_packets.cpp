// SPDX-License-Identifier: BSD-3-Clause
// Keeping packets in lists of slots, and learning how long to wait for the missing one.
#include "lib/roce/state/early_packets.hpp"

#include <algorithm>
#include <cstring>

namespace weft::roce::rc {

EarlyPackets::EarlyPackets(uint32_t trailer, uint16_t slots)
    : trailer_(trailer),
      slots_(new Slot[slots]),
      bytes_(new std::byte[slots * size_t{kSlotBytes}]) {
  for (uint16_t i = 0; i + 1 < slots; ++i) slots_[i].next = static_cast<uint16_t>(i + 1);
}

EarlyPackets::Kept EarlyPackets::keep(EarlyLine& line, Psn psn, const Frame& frame) noexcept {
  // Nearly always behind the last.
  uint16_t before = line.last;
  while (before != kNoSlot && slots_[before].psn - psn > 0) before = slots_[before].previous;
  if (before != kNoSlot && slots_[before].psn == psn) {
    if (same(before, frame)) return Kept::already;
    drop(line, before);
    return Kept::doubtful;
  }
  if (frame.remote_length != 0 || frame.length + frame.more_length > kSlotBytes || free_ == kNoSlot)
    return Kept::no;
  const uint16_t index = free_;
  Slot& slot = slots_[index];
  free_ = slot.next;
  std::memcpy(bytes(index), frame.bytes, frame.length);
  if (frame.more_length != 0)
    std::memcpy(bytes(index) + frame.length, frame.more, frame.more_length);
  slot.psn = psn;
  slot.length = frame.length;
  slot.more_length = frame.more_length;
  slot.previous = before;
  slot.next = before == kNoSlot ? line.first : slots_[before].next;
  (before == kNoSlot ? line.first : slots_[before].next) = index;
  (slot.next == kNoSlot ? line.last : slots_[slot.next].previous) = index;
  return Kept::yes;
}

Frame EarlyPackets::first(const EarlyLine& line) const noexcept {
  Frame frame;
  frame.bytes = bytes(line.first);
  frame.length = slots_[line.first].length;
  frame.more = frame.bytes + frame.length;
  frame.more_length = slots_[line.first].more_length;
  return frame;
}

// All but what a second copy may change: the A bit, and the ICRC, which covers an identification.
bool EarlyPackets::same(uint16_t slot, const Frame& frame) const noexcept {
  constexpr uint32_t kA = 8;  // the byte of the A bit
  const Slot& s = slots_[slot];
  if (s.length != frame.length || s.more_length != frame.more_length) return false;
  const std::byte* const ours = bytes(slot);
  const uint32_t end = frame.length - trailer_;
  return std::memcmp(ours, frame.bytes, kA) == 0 &&
         ((ours[kA] ^ frame.bytes[kA]) & std::byte{0x7F}) == std::byte{} &&
         std::memcmp(ours + kA + 1, frame.bytes + kA + 1, end - kA - 1) == 0 &&
         (s.more_length == 0 || std::memcmp(ours + s.length, frame.more, s.more_length) == 0);
}

void EarlyPackets::drop(EarlyLine& line, uint16_t index) noexcept {
  Slot& slot = slots_[index];
  (slot.previous == kNoSlot ? line.first : slots_[slot.previous].next) = slot.next;
  (slot.next == kNoSlot ? line.last : slots_[slot.next].previous) = slot.previous;
  slot.next = free_;
  free_ = index;
}

void EarlyPackets::clear(EarlyLine& line) noexcept {
  while (!line.empty()) drop_first(line);
}

void Gap::open(Instant now, bool in_doubt) noexcept {
  since = now;
  doubt = in_doubt;
  nak_at = now + (in_doubt ? kLeastPatience : patience);
}

void Gap::close(Psn psn, bool after_nak, Instant now) noexcept {
  if (since.is_never()) return;
  if (doubt) {
    since = nak_at = Instant::never();
    return;
  }
  if (suspect)  // the packet asked for before came only once: it was lost
    patience = std::max(kLeastPatience, Duration{patience.ps - patience.ps / 8});
  lateness = now - since;
  suspect = after_nak;
  refused = psn;
  if (!after_nak) grow(lateness);
  since = nak_at = Instant::never();
}

void Gap::on_duplicate(Psn psn) noexcept {
  if (!suspect || psn != refused) return;
  suspect = false;
  grow(lateness);
}

void Gap::grow(Duration by) noexcept {
  patience = std::clamp(by + by, patience, std::max(patience, kMostPatience));
}

}  // namespace weft::roce::rc
