// SPDX-License-Identifier: BSD-3-Clause
// The history of words that several queue pairs change with atomics, and the proof that it is one:
// each operation took effect exactly once, in some order that every result agrees with.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/random.hpp"

namespace weft::test {

// A word for FetchAdd. Each addend is 2^44 plus a random number below 2^43, so that a sum tells how
// many and which they were.
class AddedWord {
 public:
  static uint64_t addend(base::Random& random) {
    return (uint64_t{1} << 44) + random.below(uint64_t{1} << 43);
  }
  void succeeded(uint64_t addend, uint64_t original) { known_.push_back({original, addend}); }
  // Failed or flushed: it may have happened, once, or not.
  void unknown(uint64_t addend) { unknown_.push_back(addend); }
  // What is wrong with the history that ended with `value` (it began with 0), or empty.
  std::string invalid_reason(uint64_t value) const;

 private:
  struct Step {
    uint64_t original, addend;
  };
  std::vector<Step> known_;
  std::vector<uint64_t> unknown_;
};

// A word that WRITE_ADDs go to, which return nothing. Addends are those of an AddedWord.
class SummedWord {
 public:
  void succeeded(uint64_t addend) { sum_ += addend; }
  void unknown(uint64_t addend) { unknown_.push_back(addend); }
  std::string invalid_reason(uint64_t value) const;

 private:
  uint64_t sum_ = 0;
  std::vector<uint64_t> unknown_;
};

// A word for CmpSwap. Each new value is unique.
class SwappedWord {
 public:
  uint64_t next_value() { return ++issued_; }
  // The value seen last: a good guess for the next comparison.
  uint64_t guess() const { return guess_; }
  void succeeded(uint64_t expected, uint64_t value, uint64_t original);
  void unknown(uint64_t expected, uint64_t value) { unknown_.push_back({expected, value}); }
  std::string invalid_reason(uint64_t value) const;

 private:
  struct Step {
    uint64_t from, to;
  };
  uint64_t issued_ = 0;
  uint64_t guess_ = 0;
  std::vector<Step> known_;     // swaps that happened
  std::vector<uint64_t> seen_;  // values that comparisons found
  std::vector<Step> unknown_;
};

}  // namespace weft::test
