// SPDX-License-Identifier: BSD-3-Clause
// A hierarchical timer wheel: insert and remove in constant time, no allocation, deterministic order
// (by tick, then by insertion). Nodes are intrusive: they live in what they wake.
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

  // Arms a node that is not armed. A deadline in the past expires at the next call; one beyond the
  // wheel's reach (2^36 ticks, about 20 hours) is kept in the last level until it comes near.
  void insert(TimerNode& node, Instant deadline) noexcept;
  // Disarms; no-op if not armed.
  void remove(TimerNode& node) noexcept;
  // Takes out and returns one node with deadline <= now (never before its deadline), or nullptr.
  TimerNode* pop_expired(Instant now) noexcept;
  // No node expires before this instant; never() if empty. A lower bound: it may be early.
  Instant next_deadline() const noexcept;
  bool empty() const noexcept { return count_ == 0; }

 private:
  void place(TimerNode& node) noexcept;
  int64_t next_tick() const noexcept;
  void enter(int64_t tick) noexcept;

  TimerNode slots_[kLevels][kSlots];  // list heads
  uint64_t occupied_[kLevels] = {};   // a bit per slot
  int64_t tick_ = 0;                  // all slots before it are empty
  uint64_t count_ = 0;
};

}  // namespace weft::base
