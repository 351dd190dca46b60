// SPDX-License-Identifier: BSD-3-Clause
// The clock of the drivers. On x86-64 it is the time-stamp counter, calibrated once per process
// against CLOCK_MONOTONIC: a read costs half of a clock_gettime, and is needed once per burst.
// Elsewhere it is CLOCK_MONOTONIC. The epoch is the first use.
#pragma once

#include <cstdint>

#include "weft/units.hpp"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace weft::base {

class Clock {
 public:
  // The process's clock. The first call takes about a millisecond.
  static const Clock& process() noexcept;

  Instant now() const noexcept {
#if defined(__x86_64__)
    if (ps_per_tick_ != 0) {
      __extension__ using Wide = unsigned __int128;
      return {static_cast<int64_t>((static_cast<Wide>(__rdtsc() - start_) * ps_per_tick_) >> 24)};
    }
#endif
    return monotonic();
  }

 private:
  Clock() noexcept;
  Instant monotonic() const noexcept;

  uint64_t start_ = 0;        // counter at the epoch
  uint64_t ps_per_tick_ = 0;  // times 2^24; 0 = no usable counter
  int64_t start_ns_ = 0;
};

// The current time, for deadlines outside the data path.
inline Instant wall_now() noexcept { return Clock::process().now(); }

}  // namespace weft::base
