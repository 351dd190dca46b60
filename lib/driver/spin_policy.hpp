// SPDX-License-Identifier: BSD-3-Clause
// Whether the progress thread polls for a while after packets have woken it, before it sleeps
// again. A sleep and a wake-up for each packet cost a target that calls nothing (that of READs, or
// of a stream of WRITEs) several times the transfer; polls without effect take a core from another
// thread. So it tries, and goes on while that is of use:
//
// - A spin ends when no packet has come for kSpin, and after kLongestSpin.
// - After one that found nothing the next 1, 3, 7 ... at last 1,023 wake-ups sleep at once. One
//   that found packets starts that anew.
// - After one that the scheduler interrupted for more than kInterruption, because another thread
//   needs the core, the next 63, 127 ... at last 8,191 sleep at once. (Threads that only look
//   whether there is work take it for less.) One that was not interrupted, and found packets,
//   starts that anew.
#pragma once

#include <algorithm>
#include <cstdint>

#include "lib/base/check.hpp"
#include "weft/units.hpp"

namespace weft::driver {

// Of the progress thread.
class SpinPolicy {
 public:
  static constexpr Duration kSpin = Duration::from_us(50), kLongestSpin = Duration::from_ms(1);
  // Between two polls of a spin.
  static constexpr Duration kInterruption = Duration::from_us(500);

  // After a wake-up by packets. True: poll, then call ended().
  bool begins() noexcept {
    if (rest_ == 0) return true;
    --rest_;
    return false;
  }
  void ended(bool received, bool interrupted) noexcept {
    WEFT_DCHECK(rest_ == 0 && empty_ <= kMostEmpty);
    if (interrupted) {
      rest_ = (kFirstRest << interrupted_) - 1;
      interrupted_ = std::min(interrupted_ + 1, kMostInterrupted);
    } else if (received) {
      empty_ = interrupted_ = 0;
    } else {
      empty_ = std::min(empty_ + 1, kMostEmpty);
      rest_ = (1U << empty_) - 1;
    }
  }

 private:
  static constexpr uint32_t kMostEmpty = 10, kFirstRest = 64, kMostInterrupted = 7;

  uint32_t rest_ = 0;         // wake-ups to come without a spin
  uint32_t empty_ = 0;        // spins in a row that found nothing
  uint32_t interrupted_ = 0;  // that were interrupted, since one that was of use
};

}  // namespace weft::driver
