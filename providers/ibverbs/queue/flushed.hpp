// SPDX-License-Identifier: BSD-3-Clause
// Completions of a completion queue that the device never saw: of requests posted in ERR, which an
// EFA refuses and siw keeps. And a descriptor that wakes for them and for the device's own.
#pragma once

#include <atomic>
#include <deque>
#include <mutex>
#include <span>

#include "weft/cq.hpp"

namespace weft::ibverbs {

// Any thread. Its lock is taken last.
class Flushed {
 public:
  // `channel`: the descriptor of the device's events, which stays the caller's; -1: none.
  explicit Flushed(int channel) noexcept;
  Flushed(const Flushed&) = delete;
  Flushed& operator=(const Flushed&) = delete;
  ~Flushed();

  // The channel itself where no descriptor is left to make one of both.
  int fd() const noexcept { return both_ >= 0 ? both_ : channel_; }
  // The next one that comes wakes.
  void arm() noexcept { armed_ = true; }
  // The channel's own events are left to the caller.
  void acknowledge() noexcept;
  void add(const Completion& flushed) noexcept;
  bool any() const noexcept { return any_.load(std::memory_order_acquire); }
  // Drops the completions of a destroyed queue pair.
  void forget(QpNum number) noexcept;
  // Moves the oldest into `out`; returns how many.
  size_t take(std::span<Completion> out) noexcept;

 private:
  const int channel_;
  int wake_fd_ = -1, both_ = -1;
  std::atomic<bool> armed_{false};
  std::atomic<bool> any_{false};  // for polling without the lock
  std::mutex mutex_;
  std::deque<Completion> waiting_;
};

}  // namespace weft::ibverbs
