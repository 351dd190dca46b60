// SPDX-License-Identifier: BSD-3-Clause
// The progress thread's sleep, and what threads of the application do while it sleeps: see
// driver.hpp.
#include <algorithm>

#include "lib/base/check.hpp"
#include "lib/base/memory_permitting.hpp"
#include "lib/driver/driver.hpp"

namespace weft::driver {

namespace {

// Calls of transmit() after which no acknowledgement is delayed any longer (ack_delay.hpp).
constexpr int kAckTurns = 20;
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

ThreadWork::Turn Driver::turn_before_sleep(std::vector<pollfd>& descriptors, bool polled) noexcept {
  lock_.lock();
  const bool received = turn() != 0;
  const Instant now = clock_.now();
  Instant deadline = next_deadline();
  const bool full = !tx_.empty();
  bool sleep = (!machine_->wants_transmit() || full) && deadline > now;
  const auto prepare = [&] { sleep = sleep && port_->prepare_wait(descriptors, full); };
  if (!base::memory_permitting(prepare)) deadline = std::min(deadline, now + kShortSleep);
  // A timer that the application's next post sets is later than that: it need not wake the thread.
  if (polled) deadline = std::min(deadline, now + kPollCheck);
  background_.set_wake_up(deadline);
  if (sleep) suspension_.begin_sleep(polled);
  unlock();
  if (!sleep) return {received, {}};
  WEFT_DCHECK(deadline > now);
  return {received, deadline.is_never() ? kNoLimit : deadline - now};
}

void Driver::finish_sleep() noexcept {
  lock_.lock();
  suspension_.end_sleep(clock_.now() >= background_.wake_up());
  port_->finish_wait();
  unlock();
}

// No later turn may come from the application, so delayed acknowledgements leave here: that costs
// less than to wake the thread. It is woken for the rest: `more` frames that the port may have
// received, frames that wait, and a deadline before it wakes.
void Driver::leave_to_thread(bool more) noexcept {
  WEFT_DCHECK(lock_.held());
  for (int i = 0; i < kAckTurns && tx_.empty(); ++i) {
    if (!machine_->wants_transmit() || machine_->has_active()) break;
    flush(machine_->time());
  }
  more = more || machine_->wants_transmit() || !tx_.empty();
  if (more || next_deadline() < background_.wake_up()) background_.wake();
}

}  // namespace weft::driver
