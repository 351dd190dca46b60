// SPDX-License-Identifier: BSD-3-Clause
// The memory that stands in for null regions: zeros to read from, and a sink to write to. A piece
// of a null region, whatever its address, is the beginning of one of the two. Both are of the
// process and take physical pages when they are used.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::memory {

inline constexpr uint64_t kNullLength = uint64_t{1} << 21;  // bytes; no port has such an MTU

// Maps both, once, before the functions below are called. Throws std::bad_alloc.
void prepare_null_memory();
// kNullLength bytes that may be read only.
std::byte* null_zeros() noexcept;
// kNullLength bytes of any content.
std::byte* null_sink() noexcept;

}  // namespace weft::memory
