// SPDX-License-Identifier: BSD-3-Clause
// Inline copies of a few bytes: for small sizes that are not constant, calling memcpy() costs more
// than copying.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "lib/base/check.hpp"

namespace weft::base {

// 0..64 bytes, by two overlapping moves.
inline void copy_short(std::byte* to, const std::byte* from, size_t size) noexcept {
  WEFT_DCHECK(size <= 64);
  if (size >= 32) {
    std::memcpy(to, from, 32);
    std::memcpy(to + size - 32, from + size - 32, 32);
  } else if (size >= 16) {
    std::memcpy(to, from, 16);
    std::memcpy(to + size - 16, from + size - 16, 16);
  } else if (size >= 8) {
    std::memcpy(to, from, 8);
    std::memcpy(to + size - 8, from + size - 8, 8);
  } else {
    for (size_t i = 0; i < size; ++i) to[i] = from[i];
  }
}

// Any number of bytes, optimised for few.
inline void copy_mostly_short(std::byte* to, const std::byte* from, size_t size) noexcept {
  if (size <= 64) return copy_short(to, from, size);
  std::memcpy(to, from, size);
}

}  // namespace weft::base
