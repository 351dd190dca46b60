// SPDX-License-Identifier: BSD-3-Clause
// CRC-32 functions of the ICRC besides crc_continue() and crc_copy() (icrc.hpp). Each uses the
// fastest implementation of this CPU.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::wire {

// Continues a raw CRC over 1..8 words in memory order.
uint32_t crc_words(uint32_t crc, const uint64_t* words, size_t count) noexcept;

// The raw CRC that becomes `crc` when `bytes` zero bytes are appended: the inverse of feeding
// zeros.
uint32_t crc_rewind(uint32_t crc, uint32_t bytes) noexcept;

}  // namespace weft::wire
