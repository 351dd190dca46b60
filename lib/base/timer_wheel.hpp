// SPDX-License-Identifier: BSD-3-Clause
// A hierarchical timer wheel: insert and remove in constant time, no allocation, deterministic
// order (by tick, then by insertion). Nodes are intrusive.
//
// Level 0 has one slot for each tick of the current 64, level 1 one for each 64 ticks of the
// current 4096, and so on: a node is at the level of the highest group of 6 bits in which its tick
// differs from the current one. When the current tick enters a slot of a higher level, the nodes of
// that slot move to lower levels.
#pragma once

#include <cstdint>

#include "weft/units.hpp"

namespace weft::base {

struct TimerNode {
  TimerNode* next = nullptr;  // nullptr: not in a wheel
  TimerNode* previous = nullptr;
  Instant deadline = Instant::never();
  bool armed() const { return next != nullptr; }
};

class TimerWheel {
 public:
  static constexpr int kTickShift = 20;  // a tick is 2^20 ps, about 1 us
  static constexpr int kLevels = 6;
  static constexpr int kSlots = 64;

  explicit TimerWheel(Instant start) noexcept;
  TimerWheel(const TimerWheel&) = delete;
  TimerWheel& operator=(const TimerWheel&) = delete;

  // Arms a node that is not armed. A deadline in the past belongs to the current tick and expires
  // at the next call; one beyond the range of the wheel (2^36 ticks, about 20 hours) is in its last
  // slot until the wheel has turned.
  void insert(TimerNode& node, Instant deadline) noexcept;
  // Disarms; no-op if not armed.
  void remove(TimerNode& node) noexcept;
  // Disarms and returns one node with deadline <= now, or nullptr.
  TimerNode* pop_expired(Instant now) noexcept;
  // No node expires before this instant; never() if empty. A lower bound: it may be early (at most
  // kLevels - 1 times for a node), but after pop_expired(now) gave nullptr it is later than now.
  Instant next_deadline() const noexcept;
  bool empty() const noexcept { return count_ == 0; }

 private:
  // A slot by level and index, and the first tick that it covers.
  struct Slot {
    int level;
    int index;
    int64_t tick;
  };
  void place(TimerNode& node) noexcept;
  bool earliest(Slot* slot) const noexcept;
  void advance(int64_t tick) noexcept;
  void empty_into_place(Slot slot) noexcept;

  TimerNode slots_[kLevels][kSlots];  // list heads, linked to themselves when empty
  uint64_t occupied_[kLevels] = {};   // a bit per slot
  int64_t tick_ = 0;                  // the current tick; all slots before it are empty
  uint64_t count_ = 0;
};

}  // namespace weft::base
