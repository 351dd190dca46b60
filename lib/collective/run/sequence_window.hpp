// SPDX-License-Identifier: BSD-3-Clause
// A window over sequence numbers 0, 1, 2 ... that arrive in any order, at most the window's size
// ahead of the first missing one. count() is the number of those that arrived without a gap.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/base/check.hpp"

namespace weft::collective {

class SequenceWindow {
 public:
  explicit SequenceWindow(uint32_t window) : received_(window) { WEFT_DCHECK(window > 0); }

  uint64_t count() const { return count_; }

  // The number whose low 32 bits are `low`, nearest to count().
  uint64_t number(uint32_t low) const {
    const int32_t ahead = static_cast<int32_t>(low - static_cast<uint32_t>(count_));
    return count_ + static_cast<uint64_t>(int64_t{ahead});
  }

  // False: a duplicate, or beyond the window.
  bool add(uint64_t number) {
    if (number < count_ || number - count_ >= received_.size()) return false;
    if (number == count_ && ahead_ == 0) return ++count_, true;  // nearly always
    if (received_[number % received_.size()]) return false;
    received_[number % received_.size()] = true;
    ++ahead_;
    WEFT_DCHECK(ahead_ <= received_.size());
    for (; received_[count_ % received_.size()]; --ahead_)
      received_[count_++ % received_.size()] = false;
    return true;
  }
  // Where numbers arrive in order: all before `number` have arrived.
  void advance_to(uint64_t number) {
    WEFT_DCHECK(ahead_ == 0);
    if (number > count_) count_ = number;
  }

  void check_invariants() const {
    WEFT_DCHECK(!received_[count_ % received_.size()]);  // count() is missing
    WEFT_DCHECK(ahead_ < received_.size());
    WEFT_DCHECK(static_cast<size_t>(std::count(received_.begin(), received_.end(), true)) ==
                ahead_);
  }

 private:
  std::vector<bool> received_;
  size_t ahead_ = 0;  // arrived behind a gap
  uint64_t count_ = 0;
};

}  // namespace weft::collective
