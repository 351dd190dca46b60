// SPDX-License-Identifier: BSD-3-Clause
// See lock_hand_off.hpp.
#include "lib/driver/lock_hand_off.hpp"

#include <chrono>
#include <new>
#include <thread>

namespace weft::driver {

LockHandOff::LockHandOff(Lock& lock, const base::Clock& clock) : lock_(lock), clock_(clock) {
  lock_.on_unlock_contended(
      [](void* self) { static_cast<LockHandOff*>(self)->on_unlock_contended(); }, this);
}

bool LockHandOff::run(const std::function<void()>& function,
                      const std::atomic<bool>& cancelled) noexcept {
  const std::lock_guard<std::mutex> one(callers_);
  Request request{function};
  WEFT_DCHECK(!pending());
  pending_.store(&request, std::memory_order_release);
  const Instant limit = lock_.enabled() ? Instant::never() : clock_.now() + kTimeout;
  while (!request.done.load(std::memory_order_acquire)) {
    if (lock_.enabled() && lock_.try_lock_or_mark_contended()) {
      run_pending();
      lock_.unlock();
      continue;
    }
    // A request that another thread has taken refers to this frame: wait until it is done.
    if ((cancelled.load() || clock_.now() >= limit) && pending_.exchange(nullptr) == &request)
      return false;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return true;
}

void LockHandOff::run_pending() noexcept {
  WEFT_DCHECK(lock_.held());
  Request* const request = pending_.exchange(nullptr, std::memory_order_acquire);
  if (request == nullptr) return;
  WEFT_DCHECK(!request->done.load());
  try {
    request->function();
  } catch (const std::bad_alloc&) {  // the caller gets an incomplete result
  }
  request->done.store(true, std::memory_order_release);
}

void LockHandOff::on_unlock_contended() noexcept {
  if (!pending() || !lock_.try_lock()) return;
  run_pending();
  lock_.unlock();
}

}  // namespace weft::driver
