// SPDX-License-Identifier: BSD-3-Clause
// A bitmap over a sliding window of packet numbers: which packets are outstanding, are lost, have
// arrived. The window is any range that was given to cover(); bits outside are 0.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "lib/base/check.hpp"

namespace weft::sim::spray {

class SequenceBits {
 public:
  // Room for the bits of [low, high) and a word more, so that word() never wraps into them.
  void cover(uint32_t low, uint32_t high) {
    WEFT_DCHECK(low <= high);
    if (high - low + 64 <= size()) return;
    SequenceBits larger;
    larger.words_.assign(std::bit_ceil((high - low + 64) / 64 + 1), 0);
    if (!words_.empty())  // what is set lies within what was covered
      for (uint32_t i = low; i != low + size() - 64; ++i)
        if (test(i)) larger.set(i);
    words_.swap(larger.words_);
  }
  uint32_t size() const noexcept { return static_cast<uint32_t>(words_.size() * 64); }

  bool test(uint32_t number) const noexcept { return (at(number) >> (number % 64) & 1) != 0; }
  void set(uint32_t number) noexcept {
    WEFT_DCHECK(!words_.empty());
    words_[place(number)] |= uint64_t{1} << (number % 64);
  }
  void clear(uint32_t number) noexcept { words_[place(number)] &= ~(uint64_t{1} << (number % 64)); }
  // The bits of 64 numbers from `number` on.
  uint64_t word(uint32_t number) const noexcept {
    const uint32_t shift = number % 64;
    if (shift == 0) return at(number);
    return at(number) >> shift | at(number + 64) << (64 - shift);
  }
  // The first number from `low` on whose bit is set. There must be one.
  uint32_t first(uint32_t low) const noexcept {
    uint64_t found = word(low);
    while (found == 0) found = word(low += 64);
    return low + static_cast<uint32_t>(std::countr_zero(found));
  }

 private:
  size_t place(uint32_t number) const noexcept { return (number / 64) & (words_.size() - 1); }
  uint64_t at(uint32_t number) const noexcept { return words_[place(number)]; }
  std::vector<uint64_t> words_;  // a power of two of words
};

}  // namespace weft::sim::spray
