// SPDX-License-Identifier: BSD-3-Clause
// Whether packets end the sleep of the progress thread while the application polls beside it. They
// do not, if the port can suspend that (suspended_wait.hpp), while the application polls in a loop,
// and after a post of an application that polls after its posts: the acknowledgement would wake the
// thread although the next poll takes it. They do again after a poll that found completions,
// because the application may wait for something else now (perftest's ib_write_lat: for its memory
// to change). Only in a sleep of kPollCheck at most, so that a wrong guess costs no more than that.
#pragma once

#include <cstdint>
#include <utility>

#include "lib/base/check.hpp"
#include "lib/transport/port.hpp"
#include "lib/transport/suspended_wait.hpp"

namespace weft::driver {

// Under the driver's lock.
class SleepSuspension {
 public:
  explicit SleepSuspension(transport::Port& port)
      : port_(dynamic_cast<transport::SuspendedWait*>(&port)) {}

  // The thread is about to sleep. `is_short`: for kPollCheck at most.
  void begin_sleep(bool is_short) noexcept {
    WEFT_DCHECK(!suspended_);
    short_sleep_ = is_short;
    empty_polls_ = 0;
  }
  // `checks`: kPollCheck has passed.
  void end_sleep(bool checks) noexcept {
    WEFT_DCHECK(!suspended_ || (short_sleep_ && port_ != nullptr));
    if (std::exchange(suspended_, false) && posted_ && checks) polled_posts_ = 0;
    short_sleep_ = false;
  }
  bool suspended() const noexcept { return suspended_; }

  // The rest is for the application's calls while packets wake the thread.
  void on_empty_poll() noexcept {
    on_poll();
    if (++empty_polls_ == kPollLoop) suspend();
  }
  void on_poll() noexcept {
    if (std::exchange(posted_, false)) ++polled_posts_;
  }
  // False: as resume().
  bool on_post() noexcept {
    posted_ = true;
    if (polled_posts_ < kPolledPosts) return resume();
    suspend();
    return true;
  }
  // False: a packet may have been received already.
  bool resume() noexcept {
    WEFT_DCHECK(!suspended_ || port_ != nullptr);
    empty_polls_ = 0;
    return !std::exchange(suspended_, false) || port_->resume_wait();
  }

 private:
  // After so many polls in a row without a completion the application polls in a loop: one that
  // only empties its queues before it sleeps makes fewer.
  static constexpr uint32_t kPollLoop = 4;
  // After so many posts in a row that polls followed, a poll is expected after the next one too.
  static constexpr uint32_t kPolledPosts = 8;

  void suspend() noexcept {
    if (!short_sleep_ || port_ == nullptr || suspended_) return;
    port_->suspend_wait();
    suspended_ = true;
  }

  transport::SuspendedWait* const port_;  // nullptr: it cannot suspend
  bool short_sleep_ = false;              // the thread is in one
  bool suspended_ = false;
  bool posted_ = false;        // after the last poll
  uint32_t empty_polls_ = 0;   // in a row, since the thread sleeps
  uint32_t polled_posts_ = 0;  // posts in a row that a poll followed
};

}  // namespace weft::driver
