// SPDX-License-Identifier: BSD-3-Clause
// CRC-32 by carry-less multiplication, 32 bytes per instruction (AVX2 with VPCLMULQDQ), for
// crc.cpp. The other functions may be called only if crc_fold_supported() returns true; on other
// architectures it returns false. They have no state, so a page fault may abort them anywhere.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::wire {

bool crc_fold_supported() noexcept;

// Continues a raw CRC over `size` bytes.
uint32_t crc_fold(uint32_t crc, const std::byte* data, size_t size) noexcept;

// Copies `size` bytes and continues the raw CRC over the copy.
uint32_t crc_fold_copy(uint32_t crc, std::byte* to, const std::byte* from, size_t size) noexcept;

// The same with 64 bytes per instruction (AVX-512), for 256 bytes or more.
bool crc_fold_wide_supported() noexcept;
uint32_t crc_fold_wide_copy(uint32_t crc, std::byte* to, const std::byte* from,
                            size_t size) noexcept;

// Continues a raw CRC over 1..8 words in memory order. For words that were just stored: all are
// multiplied in parallel, and none is loaded wider than it was stored.
inline constexpr size_t kCrcFoldWords = 8;
uint32_t crc_fold_words(uint32_t crc, const uint64_t* words, size_t count) noexcept;

// The product of two polynomials modulo the CRC polynomial, as crc_multiply.
uint32_t crc_fold_multiply(uint32_t a, uint32_t b) noexcept;

}  // namespace weft::wire
