// SPDX-License-Identifier: BSD-3-Clause
// The lock that owns an engine: held for one bounded turn, mostly uncontended, so a waiter spins
// briefly and then sleeps on a futex. With single_thread=1 it is disabled and does nothing.
#pragma once

#include <atomic>
#include <cstdint>

#include "lib/base/check.hpp"
#include "lib/base/relax.hpp"

namespace weft::driver {

class Lock {  //= roce:C-EVT-112
 public:
  explicit Lock(bool enabled) : enabled_(enabled) {}

  bool try_lock() noexcept {
    if (!enabled_) return true;
    uint32_t free = kFree;
    return state_.load(std::memory_order_relaxed) == kFree &&
           state_.compare_exchange_strong(free, kHeld, std::memory_order_acquire,
                                          std::memory_order_relaxed);
  }

  void lock() noexcept {
    for (int spin = 0; spin < 200; ++spin) {
      if (try_lock()) return;
      base::relax();
    }
    while (state_.exchange(kContended, std::memory_order_acquire) != kFree)
      state_.wait(kContended, std::memory_order_relaxed);
  }

  void unlock() noexcept {
    if (!enabled_) return;
    WEFT_DCHECK(held());
    if (state_.exchange(kFree, std::memory_order_release) != kContended) return;
    state_.notify_one();
    if (on_contended_ != nullptr) on_contended_(context_);
  }

  // Takes the lock if it is free. False: another thread holds it, and its unlock() will call the
  // function that on_unlock_contended() has set. Only on an enabled lock.
  bool try_lock_or_mark_contended() noexcept {
    WEFT_DCHECK(enabled_);
    return state_.exchange(kContended, std::memory_order_acquire) == kFree;
  }
  // Sets the function that unlock() calls, after the lock is free, if a thread waited for it or
  // marked it. Set once, before the lock is used.
  void on_unlock_contended(void (*function)(void* context), void* context) noexcept {
    WEFT_DCHECK(on_contended_ == nullptr && state_.load() == kFree);
    on_contended_ = function, context_ = context;
  }

  bool enabled() const noexcept { return enabled_; }
  // For assertions: some thread holds the lock, or it is disabled.
  bool held() const noexcept {
    return !enabled_ || state_.load(std::memory_order_relaxed) != kFree;
  }

 private:
  static constexpr uint32_t kFree = 0, kHeld = 1, kContended = 2;
  const bool enabled_;
  std::atomic<uint32_t> state_{kFree};
  void (*on_contended_)(void*) = nullptr;
  void* context_ = nullptr;
};

// Holds a Lock for a scope.
class Holder {
 public:
  explicit Holder(Lock& lock) noexcept : lock_(lock) { lock_.lock(); }
  ~Holder() { lock_.unlock(); }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;

 private:
  Lock& lock_;
};

}  // namespace weft::driver
