// SPDX-License-Identifier: BSD-3-Clause
// What the ICRC needs of CRC-32 besides crc_continue and crc_copy (icrc.hpp): words that were just
// composed, and the way back. Each takes the fastest way this CPU has.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::wire {

// Continues a raw CRC over 1..8 words as they lie in memory.
uint32_t crc_words(uint32_t crc, const uint64_t* words, size_t count) noexcept;

// The raw CRC that becomes `crc` when `bytes` zero bytes are appended: the inverse of feeding
// zeros.
uint32_t crc_rewind(uint32_t crc, uint32_t bytes) noexcept;

}  // namespace weft::wire
