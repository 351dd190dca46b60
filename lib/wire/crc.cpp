// SPDX-License-Identifier: BSD-3-Clause
// CRC-32 for bulk: isa-l's folding kernels where the build found isa-l (it picks one for the CPU at
// run time), the portable tables otherwise. Both give the same values; a test holds them together.
#include <algorithm>
#include <cstring>

#include "lib/wire/crc_portable.hpp"
#include "lib/wire/icrc.hpp"

#ifdef WEFT_HAVE_ISAL
#include <isa-l/crc.h>
#endif

namespace weft::wire {
namespace {

// Copied and summed together: small enough to be in L1 for the second pass together with the
// source, large enough that the start of a folding kernel does not count.
constexpr size_t kBlock = 4096;

}  // namespace

uint32_t crc_continue(uint32_t crc, const std::byte* data, size_t size) noexcept {
#ifdef WEFT_HAVE_ISAL
  // isa-l inverts before and after, as gzip does. Below 16 bytes its set-up costs more than a
  // table.
  if (size >= 16) return ~crc32_gzip_refl(~crc, reinterpret_cast<const uint8_t*>(data), size);
#endif
  return crc_portable(crc, data, size);
}

uint32_t crc_copy(uint32_t crc, std::byte* to, const std::byte* from, size_t size) noexcept {
  while (size != 0) {
    const size_t block = std::min(size, kBlock);
    std::memcpy(to, from, block);
    // The copy, not the source: the source is the application's and may change any time.
    crc = crc_continue(crc, to, block);
    to += block, from += block, size -= block;
  }
  return crc;
}

}  // namespace weft::wire
