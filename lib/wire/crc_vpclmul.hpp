// SPDX-License-Identifier: BSD-3-Clause
// CRC-32 by carry-less multiplication, 32 bytes an instruction (AVX2 with VPCLMULQDQ): what crc.cpp
// uses where the CPU has it. Call nothing else here before crc_fold_supported has said yes; on
// other architectures it never does. No function keeps state, so a fault may end any of them
// anywhere.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::wire {

bool crc_fold_supported() noexcept;

// Continues a raw CRC over `size` bytes.
uint32_t crc_fold(uint32_t crc, const std::byte* data, size_t size) noexcept;

// Copies `size` bytes and continues the raw CRC over them. The sum is over the copy: a byte that is
// read more than once counts as what was stored last.
uint32_t crc_fold_copy(uint32_t crc, std::byte* to, const std::byte* from, size_t size) noexcept;

// The same with 64 bytes an instruction (AVX-512), for 256 bytes or more.
bool crc_fold_wide_supported() noexcept;
uint32_t crc_fold_wide_copy(uint32_t crc, std::byte* to, const std::byte* from,
                            size_t size) noexcept;

// Continues a raw CRC over 1..8 words as they lie in memory. For data that was just composed in
// registers: all words are multiplied side by side and none is read wider than it was written.
inline constexpr size_t kCrcFoldWords = 8;
uint32_t crc_fold_words(uint32_t crc, const uint64_t* words, size_t count) noexcept;

// The product of two polynomials modulo the CRC polynomial, as crc_multiply.
uint32_t crc_fold_multiply(uint32_t a, uint32_t b) noexcept;

}  // namespace weft::wire
