// SPDX-License-Identifier: BSD-3-Clause
// Which packets of an association have arrived: the newest kCounters counters, older ones count as
// arrived. A packet that takes longer than that many others is dropped, and sent again by its
// transport under a new counter.
//= threat:A10
#pragma once

#include <array>
#include <cstdint>

#include "lib/base/check.hpp"

namespace weft::secure {

class ReplayWindow {
 public:
  // SRD has 1,024 packets in flight to a peer at most, and as many acknowledgements.
  static constexpr uint64_t kCounters = 4096;

  bool is_new(uint64_t counter) const noexcept {
    if (counter >= end_) return true;
    return end_ - counter <= kCounters && !bit(counter);
  }
  // Only of an authentic packet whose counter is_new().
  void note(uint64_t counter) noexcept {
    WEFT_DCHECK(is_new(counter));
    if (counter >= end_) {
      // Counters that are skipped have not arrived.
      const uint64_t skipped = counter - end_;
      if (skipped >= kCounters)
        words_ = {};
      else
        for (uint64_t each = end_; each <= counter; ++each) word(each) &= ~mask(each);
      end_ = counter + 1;
    }
    word(counter) |= mask(counter);
    WEFT_DCHECK(!is_new(counter));
  }

 private:
  static uint64_t mask(uint64_t counter) noexcept { return uint64_t{1} << counter % 64; }
  uint64_t& word(uint64_t counter) noexcept { return words_[counter / 64 % words_.size()]; }
  bool bit(uint64_t counter) const noexcept {
    return (words_[counter / 64 % words_.size()] & mask(counter)) != 0;
  }

  uint64_t end_ = 0;  // one more than the newest
  std::array<uint64_t, kCounters / 64> words_{};
};

}  // namespace weft::secure
