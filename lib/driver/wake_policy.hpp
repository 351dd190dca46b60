// SPDX-License-Identifier: BSD-3-Clause
// Whether packets wake the progress thread. A wake-up for each costs some microseconds of a core,
// so the thread leaves packets to an application that polls for them. Who does is not known in
// advance: a program that waits for its memory to change (perftest's ib_write_lat) polls too, for
// the acknowledgement of its own WRITE, in between. So the rule is who took the packets:
//
// - While they wake the thread, polls of the application go on beside it. It leaves the packets to
//   the application, as a trial, after trial_ polls that found packets, after trial_ wake-ups
//   between which the application polled (a thread that preempts the poller on a busy core always
//   comes first), or trial_ / 4 in a row that found the packets taken already.
// - Then it looks after 50, 100, 200 us and every 400 us whether the application has polled since.
//   If not, packets wake it again. A trial that ends before 400 us is repeated after twice as many
//   wake-ups.
//
// A program that polls pays for at most 16 wake-ups each time it has not polled for 0.8 ms. One
// that spins on memory stalls for 0.2 ms after 16, 48, 112 ... wake-ups, at last once in 1024.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "lib/base/check.hpp"
#include "weft/units.hpp"

namespace weft::driver {

// How often the thread looks for polls at last, and its longest sleep while the application polls.
inline constexpr Duration kPollCheck = Duration::from_us(400);

// Of the progress thread, but for trial().
class WakePolicy {
 public:
  // After a wake-up since whose predecessor the application has polled. `received`: there were
  // packets. True: from now on they are left to the application.
  bool leaves_packets(bool received) noexcept {
    WEFT_DCHECK(wasted_ <= shared_ && shared_ < kMaxTrial);
    wasted_ = received ? 0 : wasted_ + 1;
    if (++shared_ < trial() && wasted_ < trial() / 4) return false;
    leave_packets();
    return true;
  }
  // After so many polls that found packets the same.
  uint32_t trial() const noexcept { return trial_.load(std::memory_order_relaxed); }
  void leave_packets() noexcept {
    forget_wake_ups();
    check_ = kFirstCheck;
  }
  // The application is about to sleep on a descriptor.
  void forget_wake_ups() noexcept { wasted_ = shared_ = 0; }

  // When to look next whether the application polls.
  Duration check_after() const noexcept { return check_; }
  // After such a look. True: from now on packets wake the thread.
  bool takes_packets(bool polled) noexcept {
    WEFT_DCHECK(check_ >= kFirstCheck && check_ <= kPollCheck);
    WEFT_DCHECK(trial() >= kFirstTrial && trial() <= kMaxTrial);
    const bool on_trial = check_ < kPollCheck;
    if (!polled) {
      if (on_trial) trial_.store(std::min(2 * trial(), kMaxTrial), std::memory_order_relaxed);
      return true;
    }
    check_ = std::min(check_ * 2, kPollCheck);
    if (on_trial && check_ == kPollCheck) trial_.store(kFirstTrial, std::memory_order_relaxed);
    return false;
  }

 private:
  static constexpr uint32_t kFirstTrial = 16, kMaxTrial = 1024;
  static constexpr Duration kFirstCheck = Duration::from_us(50);

  uint32_t wasted_ = 0;  // wake-ups in a row for packets that the application had taken
  uint32_t shared_ = 0;  // wake-ups between which the application polled
  std::atomic<uint32_t> trial_{kFirstTrial};
  Duration check_ = kPollCheck;
};

}  // namespace weft::driver
