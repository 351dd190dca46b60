// SPDX-License-Identifier: BSD-3-Clause
// Big-endian integers as types, so that a wire header is a plain struct: reading a field converts,
// assigning converts back. They have alignment 1 and no padding.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace weft::base {

template <class T, size_t kBytes = sizeof(T)>
class BigEndian {
 public:
  constexpr BigEndian() = default;
  constexpr BigEndian(T value) { store(value); }
  constexpr BigEndian& operator=(T value) { return store(value), *this; }
  constexpr operator T() const {
    T value = 0;
    for (size_t i = 0; i < kBytes; ++i) value = static_cast<T>((value << 8) | bytes_[i]);
    return value;
  }

 private:
  constexpr void store(T value) {
    for (size_t i = kBytes; i-- > 0;) {
      bytes_[i] = static_cast<uint8_t>(value);
      if constexpr (sizeof(T) > 1) value = static_cast<T>(value >> 8);
    }
  }
  uint8_t bytes_[kBytes]{};
};

using Be16 = BigEndian<uint16_t>;
using Be24 = BigEndian<uint32_t, 3>;
using Be32 = BigEndian<uint32_t>;
using Be48 = BigEndian<uint64_t, 6>;
using Be64 = BigEndian<uint64_t>;

}  // namespace weft::base
