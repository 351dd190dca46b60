// SPDX-License-Identifier: BSD-3-Clause
// The progress thread's sleep, and what threads of the application do while it sleeps: see
// driver.hpp.
#include <algorithm>
#include <utility>

#include "lib/base/check.hpp"
#include "lib/base/memory_permitting.hpp"
#include "lib/driver/driver.hpp"

namespace weft::driver {

namespace {

// The thread's longest sleep when there was no memory for all descriptors to sleep on.
constexpr Duration kShortSleep = Duration::from_ms(1);

}  // namespace

void Driver::arm(CqHandle& cq, Notify notify) noexcept {
  if (forked()) return;
  {
    Holder hold(lock_);
    cq.ring.arm(notify);
  }
  if (threaded_) background_.activate();
}

bool Driver::start_background_progress() noexcept {
  if (!threaded_) return false;
  background_.activate();
  return true;
}

ThreadWork::Turn Driver::turn_before_sleep(std::vector<pollfd>& descriptors, bool polled,
                                           bool checks) noexcept {
  // One acquisition of the lock for each wake-up: a thread of the application that polls holds it
  // most of the time.
  lock_.lock();
  end_sleep(checks);
  const bool received = turn() != 0;
  tx_.flush_delayed_acks();
  const Instant now = clock_.now();
  Instant deadline = next_deadline();
  const bool full = !tx_.empty();
  bool sleep = (!machine_->wants_transmit() || full) && deadline > now;
  const auto prepare = [&] { sleep = sleep && port_->prepare_wait(descriptors, full); };
  if (!base::memory_permitting(prepare)) deadline = std::min(deadline, now + kShortSleep);
  // A timer that the application's next post sets is later than that: it need not wake the thread.
  if (polled) polled_at_ = now;
  const bool polls = now - polled_at_ < kPollCheck;
  Duration limit = deadline.is_never() ? kNoLimit : deadline - now;
  const bool check = polls && limit > kPollCheck;
  if (check) {
    deadline = now + kPollCheck;
    limit = kNoLimit;
  }
  background_.set_wake_up(deadline);
  sleeps_ = sleep;
  if (sleep) suspension_.begin_sleep(polls);
  unlock();
  if (!sleep) return {received, {}, check};
  WEFT_DCHECK(deadline > now);
  return {received, limit, check};
}

void Driver::end_sleep(bool checks) noexcept {
  WEFT_DCHECK(lock_.held());
  if (!std::exchange(sleeps_, false)) return;
  suspension_.end_sleep(checks);
  port_->finish_wait();
}

// No later turn may come from the application, so delayed acknowledgements leave here: that costs
// less than to wake the thread. It is woken for the rest: `more` frames that the port may have
// received, frames that wait, and a deadline before it wakes.
void Driver::leave_to_thread(bool more) noexcept {
  WEFT_DCHECK(lock_.held());
  tx_.flush_delayed_acks();
  more = more || machine_->wants_transmit() || !tx_.empty();
  if (more || next_deadline() < background_.wake_up()) background_.wake();
}

}  // namespace weft::driver
