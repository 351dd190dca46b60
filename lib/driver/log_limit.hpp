// SPDX-License-Identifier: BSD-3-Clause
// Lines on stderr that packets can cause: ten in any second of the process, of all senders
// together. Further ones are left out; the counters have them. //= threat:A35
#pragma once

#include <array>
#include <cstdint>
#include <mutex>

#include "weft/units.hpp"

namespace weft::driver {

class LogLimit {
 public:
  static constexpr uint32_t kLines = 10;
  static constexpr Duration kPeriod = Duration::from_s(1);

  // Whether a line may be written now.
  bool take(Instant now) {
    const std::lock_guard lock(mutex_);
    Instant& oldest = written_[next_];
    if (oldest != Instant::never() && now - oldest < kPeriod) return false;
    oldest = now;
    next_ = (next_ + 1) % kLines;
    return true;
  }

  LogLimit() { written_.fill(Instant::never()); }

 private:
  std::mutex mutex_;
  std::array<Instant, kLines> written_;  // when the last lines were
  uint32_t next_ = 0;                    // the oldest of them
};

}  // namespace weft::driver
