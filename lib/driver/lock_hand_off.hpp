// SPDX-License-Identifier: BSD-3-Clause
// Running a function under a lock that another thread takes again and again (an application that
// polls in a loop): the waiter leaves its function here, and the holder runs it when it unlocks.
// On a disabled lock (single_thread=1) the application's thread runs it in its next progress().
#pragma once

#include <atomic>
#include <functional>
#include <mutex>

#include "lib/base/clock.hpp"
#include "lib/driver/lock.hpp"

namespace weft::driver {

class LockHandOff {
 public:
  // Registers itself as the lock's on_unlock_contended function.
  LockHandOff(Lock& lock, const base::Clock& clock);
  LockHandOff(const LockHandOff&) = delete;
  LockHandOff& operator=(const LockHandOff&) = delete;

  // Runs `function` under the lock, here or on the thread that holds it, and returns when it has
  // run. From any thread; callers run one at a time. False, and it has not run: `cancelled` became
  // true first, or the lock is disabled and no progress() came within kTimeout.
  bool run(const std::function<void()>& function, const std::atomic<bool>& cancelled) noexcept;

  // Whether a function waits for run_pending().
  bool pending() const noexcept { return pending_.load(std::memory_order_relaxed) != nullptr; }
  // Runs the waiting function, if there is one. The caller holds the lock, or the lock is disabled
  // and this is the application's thread.
  void run_pending() noexcept;

 private:
  static constexpr Duration kTimeout = Duration::from_ms(200);
  struct Request {
    const std::function<void()>& function;
    std::atomic<bool> done{false};
  };
  void on_unlock_contended() noexcept;

  Lock& lock_;
  const base::Clock& clock_;
  std::atomic<Request*> pending_{nullptr};
  std::mutex callers_;  // serialises run()
};

}  // namespace weft::driver
