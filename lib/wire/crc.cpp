// SPDX-License-Identifier: BSD-3-Clause
// Selects the CRC-32 implementation: weft's folding kernels on CPUs with 256-bit carry-less
// multiplication; isa-l on CPUs with 512-bit (except to copy and sum at once, which isa-l cannot)
// or without VPCLMULQDQ; else portable tables. A test compares all of them.
#include "lib/wire/crc.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "lib/base/check.hpp"
#include "lib/wire/crc_portable.hpp"
#include "lib/wire/crc_vpclmul.hpp"
#include "lib/wire/icrc.hpp"

#ifdef WEFT_HAVE_ISAL
#include <isa-l/crc.h>
#endif

namespace weft::wire {
namespace {

// Block size for copying and then summing by isa-l: small enough for source and copy in L1, large
// enough that the set-up of a kernel does not matter.
constexpr size_t kBlock = 4096;

// Bytes from which 512-bit kernels are faster.
constexpr size_t kWide = 256;

// Bytes up to which weft's kernels are used. A static initialiser that runs before this one sees
// zero: slower, with the same result.
size_t measure_reach() noexcept {
  if (!crc_fold_supported()) return 0;
#if defined(WEFT_HAVE_ISAL) && defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return kWide;
#endif
  return SIZE_MAX;
}

const size_t fold_below = measure_reach();
const bool copies_wide = crc_fold_wide_supported();

// isa-l returns with dirty upper halves of the wide registers, which slows down later SSE code.
#if defined(WEFT_HAVE_ISAL) && defined(__x86_64__)
const bool has_wide_registers = __builtin_cpu_supports("avx");
inline void rest_wide_registers() noexcept {
  if (has_wide_registers) __asm__ volatile("vzeroupper");
}
#else
inline void rest_wide_registers() noexcept {}
#endif

uint32_t crc_by_library(uint32_t crc, const std::byte* data, size_t size) noexcept {
#ifdef WEFT_HAVE_ISAL
  // isa-l inverts before and after, as gzip does. Below 16 bytes its set-up costs more than a
  // table.
  if (size >= 16) {
    const uint32_t sum = ~crc32_gzip_refl(~crc, reinterpret_cast<const uint8_t*>(data), size);
    rest_wide_registers();
    return sum;
  }
#endif
  return crc_portable(crc, data, size);
}

uint32_t crc_copy_by_library(uint32_t crc, std::byte* to, const std::byte* from,
                             size_t size) noexcept {
  while (size != 0) {
    const size_t block = std::min(size, kBlock);
    std::memcpy(to, from, block);
    // Over the copy: the application may change the source at any time.
    crc = crc_by_library(crc, to, block);
    to += block, from += block, size -= block;
  }
  return crc;
}

// x^-8: dividing by x undoes one step of the register. Bit 31 is set after a step exactly if the
// polynomial was subtracted in it.
constexpr uint32_t divide_by_x8(uint32_t v) {
  for (int bit = 0; bit < 8; ++bit) v = v >> 31 ? (v ^ kCrcPolynomial) << 1 | 1 : v << 1;
  return v;
}

using RewindTable = std::array<uint32_t, 256>;

// x^(-8 * step * i) for i in 0..255, so that any length below 65,536 takes two products.
constexpr RewindTable make_rewind(uint32_t step) {
  RewindTable t{};
  t[0] = 0x80000000;  // x^0
  uint32_t factor = t[0];
  for (uint32_t i = 0; i < step; ++i) factor = divide_by_x8(factor);
  for (size_t i = 1; i < 256; ++i) t[i] = crc_multiply(t[i - 1], factor);
  return t;
}

constexpr RewindTable kRewindBytes = make_rewind(1);
constexpr RewindTable kRewindPages = make_rewind(256);

uint32_t product(uint32_t a, uint32_t b) noexcept {
  return fold_below != 0 ? crc_fold_multiply(a, b) : crc_multiply(a, b);
}

}  // namespace

uint32_t crc_continue(uint32_t crc, const std::byte* data, size_t size) noexcept {
  return size < fold_below ? crc_fold(crc, data, size) : crc_by_library(crc, data, size);
}

uint32_t crc_copy(uint32_t crc, std::byte* to, const std::byte* from, size_t size) noexcept {
  if (copies_wide && size >= kWide) return crc_fold_wide_copy(crc, to, from, size);
  return size < fold_below ? crc_fold_copy(crc, to, from, size)
                           : crc_copy_by_library(crc, to, from, size);
}

uint32_t crc_words(uint32_t crc, const uint64_t* words, size_t count) noexcept {
  WEFT_DCHECK(count >= 1 && count <= kCrcFoldWords);
  if (fold_below != 0) return crc_fold_words(crc, words, count);
  return crc_by_library(crc, reinterpret_cast<const std::byte*>(words), count * sizeof *words);
}

uint32_t crc_rewind(uint32_t crc, uint32_t bytes) noexcept {
  for (; bytes >= 65536; bytes -= 65535) crc = crc_rewind(crc, 65535);
  if (bytes >= 256) crc = product(crc, kRewindPages[bytes >> 8]);
  return product(crc, kRewindBytes[bytes & 0xFF]);
}

}  // namespace weft::wire
