// SPDX-License-Identifier: BSD-3-Clause
// The lock that owns an engine: held for one bounded turn, mostly uncontended, so a waiter spins a
// little and then sleeps. Without threads (single_thread=1) it does nothing.
#pragma once

#include <atomic>
#include <cstdint>

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
      relax();
    }
    while (state_.exchange(kContended, std::memory_order_acquire) != kFree)
      state_.wait(kContended, std::memory_order_relaxed);
  }

  void unlock() noexcept {
    if (!enabled_) return;
    if (state_.exchange(kFree, std::memory_order_release) != kContended) return;
    state_.notify_one();
    if (on_contended_ != nullptr) on_contended_(host_);
  }

  // Takes the lock if it is free; else who holds it calls greet(host) behind its unlock().
  bool try_lock_or_mark_contended() noexcept {
    return state_.exchange(kContended, std::memory_order_acquire) == kFree;
  }
  // Before the lock is used.
  void on_contended(void (*on_unlock_contended)(void*), void* host) noexcept {
    on_contended_ = on_unlock_contended, host_ = host;
  }

 private:
  static constexpr uint32_t kFree = 0, kHeld = 1, kContended = 2;
  static void relax() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  const bool enabled_;
  std::atomic<uint32_t> state_{kFree};
  void (*on_contended_)(void*) = nullptr;
  void* host_ = nullptr;
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
