// SPDX-License-Identifier: BSD-3-Clause
// The timer wheel: level l has 64 slots of 64^l ticks each. A node lies at the level where its
// distance fits; when time enters a slot of a higher level, its nodes move down. Bitmaps of occupied
// slots let time jump over emptiness. Deadlines are rounded up to ticks, so none expires early.
#include "lib/base/timer_wheel.hpp"

#include <algorithm>
#include <bit>

#include "lib/base/check.hpp"

namespace weft::base {

namespace {

constexpr int kBits = 6;
constexpr int64_t kReach = int64_t{1} << (kBits * TimerWheel::kLevels);

int64_t tick_at_or_after(Instant t) noexcept {
  return (t.ps >> TimerWheel::kTickShift) +
         ((t.ps & ((int64_t{1} << TimerWheel::kTickShift) - 1)) != 0 ? 1 : 0);
}

unsigned slot_of(int64_t tick, int level) noexcept {
  return static_cast<unsigned>(tick >> (kBits * level)) & (TimerWheel::kSlots - 1);
}

void link_before(TimerNode& head, TimerNode& node) noexcept {
  node.next = &head;
  node.previous = head.previous;
  head.previous->next = &node;
  head.previous = &node;
}

void unlink(TimerNode& node) noexcept {
  node.previous->next = node.next;
  node.next->previous = node.previous;
  node.next = node.previous = nullptr;
}

}  // namespace

TimerWheel::TimerWheel(Instant start) noexcept : tick_(start.ps >> kTickShift) {
  for (auto& level : slots_)
    for (TimerNode& head : level) head.next = head.previous = &head;
}

void TimerWheel::insert(TimerNode& node, Instant deadline) noexcept {
  WEFT_DCHECK(!node.armed());
  node.deadline = deadline;
  place(node);
  ++count_;
}

void TimerWheel::place(TimerNode& node) noexcept {
  const int64_t tick = std::clamp(tick_at_or_after(node.deadline), tick_, tick_ + kReach - 1);
  int level = 0;
  while (tick - tick_ >= int64_t{1} << (kBits * (level + 1))) ++level;
  const unsigned slot = slot_of(tick, level);
  link_before(slots_[level][slot], node);
  occupied_[level] |= uint64_t{1} << slot;
}

void TimerWheel::remove(TimerNode& node) noexcept {
  if (!node.armed()) return;
  TimerNode* const after = node.next;
  unlink(node);
  --count_;
  // If the slot is empty now, `after` is its head, which tells level and slot.
  if (after->next != after) return;
  const auto index = after - &slots_[0][0];
  if (index < 0 || index >= kLevels * kSlots) return;
  occupied_[index / kSlots] &= ~(uint64_t{1} << (index % kSlots));
}

// The first tick at which something may be due or has to move down.
int64_t TimerWheel::next_tick() const noexcept {
  int64_t next = INT64_MAX;
  for (int level = 0; level < kLevels; ++level) {
    if (occupied_[level] == 0) continue;
    const int64_t at = tick_ >> (kBits * level);
    const unsigned slot = static_cast<unsigned>(at) & (kSlots - 1);
    // Above level 0 the slot that time is in has moved down: what is there now is one turn ahead.
    const uint64_t ahead = std::rotr(occupied_[level], static_cast<int>(slot));
    const int64_t distance =
        level == 0 ? std::countr_zero(ahead) : std::countr_zero(ahead & ~uint64_t{1});
    next = std::min(next, (at + distance) << (kBits * level));
  }
  return next;
}

// Time enters `tick`: slots that begin there move down.
void TimerWheel::enter(int64_t tick) noexcept {
  tick_ = tick;
  for (int level = kLevels - 1; level > 0; --level) {
    if ((tick & ((int64_t{1} << (kBits * level)) - 1)) != 0) continue;
    const unsigned slot = slot_of(tick, level);
    const uint64_t bit = uint64_t{1} << slot;
    if ((occupied_[level] & bit) == 0) continue;
    occupied_[level] &= ~bit;
    TimerNode& head = slots_[level][slot];
    TimerNode* node = head.next;
    head.next = head.previous = &head;
    while (node != &head) {
      TimerNode* const after = node->next;
      place(*node);
      node = after;
    }
  }
}

TimerNode* TimerWheel::pop_expired(Instant now) noexcept {
  const int64_t target = now.ps >> kTickShift;
  while (count_ != 0) {
    const unsigned slot = slot_of(tick_, 0);
    if ((occupied_[0] >> slot & 1) != 0 && tick_ <= target) {
      TimerNode* const node = slots_[0][slot].next;
      remove(*node);
      return node;
    }
    const int64_t next = next_tick();
    if (next > target) break;
    enter(next);
  }
  if (target > tick_) enter(target);
  return nullptr;
}

Instant TimerWheel::next_deadline() const noexcept {
  if (count_ == 0) return Instant::never();
  return {next_tick() << kTickShift};
}

}  // namespace weft::base
