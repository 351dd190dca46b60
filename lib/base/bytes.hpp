// SPDX-License-Identifier: BSD-3-Clause
// Big-endian integers as types, so that a wire header is a plain struct: reading a field converts,
// assigning converts back. They have alignment 1 and no padding.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace weft::base {

template <class T, size_t kBytes = sizeof(T)>
class BigEndian {
 public:
  constexpr BigEndian() = default;
  constexpr BigEndian(T value) { store(value); }
  constexpr BigEndian& operator=(T value) { return store(value), *this; }
  constexpr operator T() const {
    if (!std::is_constant_evaluated()) return load();
    T value = 0;
    for (size_t i = 0; i < kBytes; ++i) value = static_cast<T>((value << 8) | bytes_[i]);
    return value;
  }

 private:
  // Compilers turn the loops into one instruction only where the width is that of a register.
  T load() const {
    if constexpr (kBytes == 3) {
      return static_cast<T>(part<uint16_t>(0)) << 8 | bytes_[2];
    } else if constexpr (kBytes == 6) {
      return static_cast<T>(part<uint32_t>(0)) << 16 | part<uint16_t>(4);
    } else {
      return part<T>(0);
    }
  }
  template <class Part>
  Part part(size_t at) const {
    Part value;
    std::memcpy(&value, bytes_ + at, sizeof value);
    return swapped(value);
  }
  template <class Part>
  void set_part(size_t at, Part value) {
    value = swapped(value);
    std::memcpy(bytes_ + at, &value, sizeof value);
  }
  template <class Part>
  static Part swapped(Part value) {
    if constexpr (std::endian::native == std::endian::big || sizeof value == 1) return value;
    if constexpr (sizeof value == 2) return __builtin_bswap16(value);
    if constexpr (sizeof value == 4) return __builtin_bswap32(value);
    if constexpr (sizeof value == 8) return __builtin_bswap64(value);
  }
  constexpr void store(T value) {
    if (!std::is_constant_evaluated()) {
      if constexpr (kBytes == 3) {
        set_part(0, static_cast<uint16_t>(value >> 8));
        bytes_[2] = static_cast<uint8_t>(value);
      } else if constexpr (kBytes == 6) {
        set_part(0, static_cast<uint32_t>(value >> 16));
        set_part(4, static_cast<uint16_t>(value));
      } else {
        set_part(0, value);
      }
      return;
    }
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
