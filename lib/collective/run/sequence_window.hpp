// SPDX-License-Identifier: BSD-3-Clause
// Counts events that have numbers 0, 1, 2 ... and come in any order, at most a window ahead of the
// first one that is missing: count() have come without a gap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::collective {

class InOrder {
 public:
  explicit InOrder(uint32_t window) : there_(window) {}

  uint64_t count() const { return count_; }

  // The number whose low half is `low`, near those that are expected.
  uint64_t number(uint32_t low) const {
    const int32_t ahead = static_cast<int32_t>(low - static_cast<uint32_t>(count_));
    return count_ + static_cast<uint64_t>(int64_t{ahead});
  }

  // False if it has come before, or is beyond the window.
  bool add(uint64_t number) {
    if (number < count_ || number - count_ >= there_.size()) return false;
    if (number == count_ && ahead_ == 0) return ++count_, true;  // nearly always
    if (there_[number % there_.size()]) return false;
    there_[number % there_.size()] = true;
    ++ahead_;
    for (; there_[count_ % there_.size()]; --ahead_) there_[count_++ % there_.size()] = false;
    return true;
  }
  // All before `number` have come, and where they come in order none behind.
  void add_before(uint64_t number) {
    if (number > count_) count_ = number;
  }

 private:
  std::vector<bool> there_;
  size_t ahead_ = 0;  // have come, behind one that is missing
  uint64_t count_ = 0;
};

}  // namespace weft::collective
