// SPDX-License-Identifier: BSD-3-Clause
// Shared by all fuzz targets: numbers from the input, and failing on a violated rule.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace weft::fuzz {

inline void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "fuzz: %s\n", what);
  std::abort();
}

// Numbers from the input; zeroes when it is used up.
struct Input {
  const uint8_t* at;
  size_t left;
  // The last byte, which says what kind of dialogue it is.
  uint8_t take_last() { return left != 0 ? at[--left] : uint8_t{0}; }
  template <class T>
  T take() {
    T value{};
    const size_t n = std::min(left, sizeof value);
    if (n != 0) std::memcpy(&value, at, n);
    at += n;
    left -= n;
    return value;
  }
};

}  // namespace weft::fuzz
