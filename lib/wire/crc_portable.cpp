// SPDX-License-Identifier: BSD-3-Clause
// Slicing by eight: table k has the effect of a byte that is followed by k more bytes of the same
// step, so that eight independent lookups replace eight dependent ones. The tables are constexpr.
#include "lib/wire/crc_portable.hpp"

#include <array>
#include <bit>
#include <cstring>

namespace weft::wire {
namespace {

using Table = std::array<uint32_t, 256>;

constexpr std::array<Table, 8> make_tables() {
  std::array<Table, 8> t{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (kCrcPolynomial & (0u - (crc & 1)));
    t[0][i] = crc;
  }
  for (size_t k = 1; k < 8; ++k)
    for (size_t i = 0; i < 256; ++i) t[k][i] = t[k - 1][i] >> 8 ^ t[0][t[k - 1][i] & 0xFF];
  return t;
}

constexpr std::array<Table, 8> kTables = make_tables();

}  // namespace

uint32_t crc_portable(uint32_t crc, const std::byte* data, size_t size) noexcept {
  if constexpr (std::endian::native == std::endian::little) {
    for (; size >= 8; data += 8, size -= 8) {
      uint32_t low, high;
      std::memcpy(&low, data, 4);
      std::memcpy(&high, data + 4, 4);
      low ^= crc;
      crc = kTables[7][low & 0xFF] ^ kTables[6][low >> 8 & 0xFF] ^ kTables[5][low >> 16 & 0xFF] ^
            kTables[4][low >> 24] ^ kTables[3][high & 0xFF] ^ kTables[2][high >> 8 & 0xFF] ^
            kTables[1][high >> 16 & 0xFF] ^ kTables[0][high >> 24];
    }
  }
  for (; size != 0; ++data, --size)
    crc = crc >> 8 ^ kTables[0][(crc ^ static_cast<uint32_t>(*data)) & 0xFF];
  return crc;
}

}  // namespace weft::wire
