// SPDX-License-Identifier: BSD-3-Clause
// The rate limit of one queue pair (QueuePairAttributes::rate_limit, and the static rate of its
// path): a token bucket in the form of the time at which the next packet may leave. It knows no
// congestion: that is the Pacer's, and a packet leaves when both permit it.
//
//= roce:C-AV-138
// Over any stretch of time at most rate x time + burst leaves. A packet that left late is made up
// for as far as the burst permits, so that timers with coarse ticks cost no rate.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "lib/base/check.hpp"
#include "weft/units.hpp"

namespace weft::roce {

// The lower one of two rates, of which 0 means no limit.
constexpr Rate lower(Rate a, Rate b) noexcept {
  if (a.bits_per_second == 0 || b.bits_per_second == 0) return std::max(a, b);
  return std::min(a, b);
}

class RateLimiter {
 public:
  // `rate` holds from `now` on (0: none). A burst takes `burst` bytes of the link, of which
  // `longest` is the longest packet; 0: what leaves in `quantum`.
  void set(Rate rate, uint64_t burst, uint32_t longest, Duration quantum, Instant now) noexcept {
    WEFT_DCHECK(rate.bits_per_second >= 0 && quantum.ps >= 0);
    WEFT_DCHECK(burst <= UINT32_MAX);
    // The wait in progress was for a lower rate.
    if (next_ > now && lower(rate, rate_) != rate)
      next_ = rate.bits_per_second == 0
                  ? now
                  : now + scaled(next_ - now, rate_.bits_per_second, rate.bits_per_second);
    rate_ = rate;
    catch_up_ = quantum;
    if (burst == 0 || rate.bits_per_second == 0) return;
    // The packet that empties the bucket is part of the burst.
    const auto bytes = static_cast<int64_t>(burst - std::min<uint64_t>(burst, longest));
    const int64_t most = rate.bits_per_second / 8 * kMostSeconds;
    catch_up_ = rate.time_for(std::min(bytes, most));
    WEFT_DCHECK(catch_up_.ps >= 0);
  }

  bool limits() const noexcept { return rate_.bits_per_second != 0; }
  Rate rate() const noexcept { return rate_; }
  // May a packet leave now?
  bool open(Instant now) const noexcept { return next_ <= now; }
  // It may not: when it may.
  Instant wait(Instant now) noexcept {
    WEFT_DCHECK(!open(now));
    waiting_ = true;
    return next_;
  }
  // A packet that takes `bytes` of the link left; `path`: the limit of its own path. Returns how
  // late it left, if it had to wait for its time; else a negative duration.
  Duration on_sent(Instant now, uint32_t bytes, Rate path = {}) noexcept {
    const Rate rate = lower(rate_, path);
    if (rate.bits_per_second == 0) return Duration{-1};
    WEFT_DCHECK(open(now));
    const Duration late = std::exchange(waiting_, false) ? now - next_ : Duration{-1};
    next_ = std::max(next_, now - catch_up_) + rate.time_for(bytes);
    return late;
  }

 private:
  static constexpr int64_t kMostSeconds = 1000;  // that a burst makes up for
  static Duration scaled(Duration d, int64_t from, int64_t to) noexcept {
    return {static_cast<int64_t>(static_cast<double>(d.ps) * static_cast<double>(from) /
                                 static_cast<double>(to))};
  }

  Rate rate_;
  Duration catch_up_;
  Instant next_;
  bool waiting_ = false;  // a packet waits for next_
};

}  // namespace weft::roce
