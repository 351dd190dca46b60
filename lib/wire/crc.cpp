// SPDX-License-Identifier: BSD-3-Clause
// Which CRC-32 runs: our folding kernels where the CPU has 256-bit carry-less multiplication,
// isa-l's where it has the 512-bit one or less than ours needs, the portable tables where there is
// neither. All give the same values; a test holds them together.
#include <algorithm>
#include <cstring>

#include "lib/wire/crc_portable.hpp"
#include "lib/wire/crc_vpclmul.hpp"
#include "lib/wire/icrc.hpp"

#ifdef WEFT_HAVE_ISAL
#include <isa-l/crc.h>
#endif

namespace weft::wire {
namespace {

// Copied and summed together by isa-l: small enough to be in L1 for the second pass together with
// the source, large enough that the start of a kernel does not count.
constexpr size_t kBlock = 4096;

// From how many bytes on isa-l's 512-bit kernel is taken; below, it has not got into its stride.
constexpr size_t kWide = 256;

// Up to how many bytes ours are taken. A static initialiser that runs before this one sees zero:
// slower, and the same sum.
size_t measure_reach() noexcept {
  if (!crc_fold_supported()) return 0;
#if defined(WEFT_HAVE_ISAL) && defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return kWide;
#endif
  return SIZE_MAX;
}

const size_t fold_below = measure_reach();

uint32_t crc_by_library(uint32_t crc, const std::byte* data, size_t size) noexcept {
#ifdef WEFT_HAVE_ISAL
  // isa-l inverts before and after, as gzip does. Below 16 bytes its set-up costs more than a
  // table.
  if (size >= 16) return ~crc32_gzip_refl(~crc, reinterpret_cast<const uint8_t*>(data), size);
#endif
  return crc_portable(crc, data, size);
}

uint32_t crc_copy_by_library(uint32_t crc, std::byte* to, const std::byte* from,
                             size_t size) noexcept {
  while (size != 0) {
    const size_t block = std::min(size, kBlock);
    std::memcpy(to, from, block);
    // The copy, not the source: the source is the application's and may change any time.
    crc = crc_by_library(crc, to, block);
    to += block, from += block, size -= block;
  }
  return crc;
}

}  // namespace

uint32_t crc_continue(uint32_t crc, const std::byte* data, size_t size) noexcept {
  return size < fold_below ? crc_fold(crc, data, size) : crc_by_library(crc, data, size);
}

uint32_t crc_copy(uint32_t crc, std::byte* to, const std::byte* from, size_t size) noexcept {
  return size < fold_below ? crc_fold_copy(crc, to, from, size)
                           : crc_copy_by_library(crc, to, from, size);
}

}  // namespace weft::wire
