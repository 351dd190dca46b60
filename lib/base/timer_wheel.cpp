// SPDX-License-Identifier: BSD-3-Clause
// See timer_wheel.hpp. Order within a tick needs no sequence number: lists are appended to at the
// tail, and a slot of a higher level moves down when the current tick enters it, which is before
// any node can be inserted directly into the slots that its nodes move to.
#include "lib/base/timer_wheel.hpp"

#include <algorithm>
#include <bit>

#include "lib/base/check.hpp"

namespace weft::base {
namespace {

constexpr int kSlotBits = 6;
constexpr int64_t kReach = int64_t{1} << (kSlotBits * TimerWheel::kLevels);

int64_t tick_of(Instant instant) noexcept { return instant.ps >> TimerWheel::kTickShift; }

int index_at(int64_t tick, int level) noexcept {
  return static_cast<int>(tick >> (kSlotBits * level)) & (TimerWheel::kSlots - 1);
}

}  // namespace

TimerWheel::TimerWheel(Instant start) noexcept : tick_(tick_of(start)) {
  for (auto& level : slots_)
    for (TimerNode& head : level) head.next = head.previous = &head;
}

void TimerWheel::insert(TimerNode& node, Instant deadline) noexcept {
  WEFT_DCHECK(!node.armed());
  node.deadline = deadline;
  place(node);
  ++count_;
}

void TimerWheel::remove(TimerNode& node) noexcept {
  if (!node.armed()) return;
  TimerNode* const next = node.next;
  next->previous = node.previous;
  node.previous->next = next;
  if (next == node.previous) {  // both are the head: the slot is empty now
    const auto slot = static_cast<size_t>(next - &slots_[0][0]);
    occupied_[slot / kSlots] &= ~(uint64_t{1} << (slot % kSlots));
  }
  node.next = node.previous = nullptr;
  WEFT_DCHECK(count_ != 0);
  --count_;
}

TimerNode* TimerWheel::pop_expired(Instant now) noexcept {
  const int64_t last = tick_of(now);
  for (;;) {
    TimerNode& head = slots_[0][index_at(tick_, 0)];
    for (TimerNode* node = head.next; node != &head; node = node->next) {
      if (node->deadline > now) continue;  // later in this tick
      if (tick_of(node->deadline) > tick_)
        continue;  // beyond the range: stays until the wheel has turned
      remove(*node);
      WEFT_DCHECK(node->deadline <= now);
      return node;
    }
    if (tick_ >= last) return nullptr;
    advance(last);
  }
}

Instant TimerWheel::next_deadline() const noexcept {
  Slot slot;
  if (!earliest(&slot)) return Instant::never();
  if (slot.level > 0) return {slot.tick << kTickShift};
  // One tick is short and has few nodes: exact.
  const TimerNode& head = slots_[0][slot.index];
  Instant first = Instant::never();
  for (const TimerNode* node = head.next; node != &head; node = node->next)
    first = std::min(first, node->deadline);
  return first;
}

// Links a node at the end of the slot for its deadline, as seen from the current tick.
void TimerWheel::place(TimerNode& node) noexcept {
  const int64_t end = tick_ | (kReach - 1);
  const int64_t tick = std::clamp(tick_of(node.deadline), tick_, end);
  const auto difference = static_cast<uint64_t>(tick ^ tick_);
  const int level = (std::bit_width(difference | 1) - 1) / kSlotBits;
  const int index = index_at(tick, level);
  TimerNode& head = slots_[level][index];
  node.next = &head;
  node.previous = head.previous;
  head.previous->next = &node;
  head.previous = &node;
  occupied_[level] |= uint64_t{1} << index;
}

// The slot with the earliest nodes; false if the wheel is empty. A lower level is always before a
// higher one, because it covers a part of the higher level's current slot.
bool TimerWheel::earliest(Slot* slot) const noexcept {
  for (int level = 0; level < kLevels; ++level) {
    if (occupied_[level] == 0) continue;
    const int index = std::countr_zero(occupied_[level]);
    WEFT_DCHECK(index >= index_at(tick_, level));
    const int64_t turn = int64_t{kSlots} << (kSlotBits * level);
    const int64_t offset = static_cast<int64_t>(index) << (kSlotBits * level);
    *slot = {level, index, (tick_ & -turn) | offset};
    return true;
  }
  return false;
}

// Advances the current tick to `tick`, or to the next slot with nodes if that is earlier. Nodes
// left in the current slot stay until the wheel has turned.
void TimerWheel::advance(int64_t tick) noexcept {
  Slot slot;
  if (!earliest(&slot)) {
    tick_ = tick;
    return;
  }
  if (slot.level == 0 && slot.tick == tick_) {
    ++tick_;
    empty_into_place(slot);
    return;
  }
  if (slot.tick > tick) {
    tick_ = tick;
    return;
  }
  tick_ = slot.tick;
  if (slot.level > 0) empty_into_place(slot);
}

// Removes all nodes from a slot and places them again, in their order.
void TimerWheel::empty_into_place(Slot slot) noexcept {
  TimerNode& head = slots_[slot.level][slot.index];
  TimerNode* node = head.next;
  head.next = head.previous = &head;
  occupied_[slot.level] &= ~(uint64_t{1} << slot.index);
  while (node != &head) {
    TimerNode* const next = node->next;
    place(*node);
    node = next;
  }
}

}  // namespace weft::base
