// SPDX-License-Identifier: BSD-3-Clause
// CRC-32 (polynomial 0x04C11DB7, reflected) without special instructions, eight bytes per step: the
// fallback, and the reference for tests of the others. And the product of polynomials, for
// constants and for shifting a CRC along a message.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::wire {

// The polynomial, reflected: bit 31 is x^0.
inline constexpr uint32_t kCrcPolynomial = 0xEDB88320;

// Continues a raw (uninverted) CRC over `size` bytes.
uint32_t crc_portable(uint32_t crc, const std::byte* data, size_t size) noexcept;

// The product of two polynomials modulo the CRC polynomial.
constexpr uint32_t crc_multiply(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (int bit = 31; bit >= 0; --bit) {
    product ^= b & (0u - (a >> bit & 1));
    b = b >> 1 ^ (kCrcPolynomial & (0u - (b & 1)));
  }
  return product;
}

}  // namespace weft::wire
