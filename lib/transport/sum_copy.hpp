// SPDX-License-Identifier: BSD-3-Clause
// Copies user memory and computes its CRC in one pass: the CRC is that of the bytes that are sent,
// even if the user changes the source meanwhile.
#pragma once

#include "lib/base/check.hpp"
#include "lib/memory/guarded_copy.hpp"
#include "lib/wire/icrc.hpp"

namespace weft::transport {

// Continues `crc` over `length` bytes as copied. False: a page of `from` is not mapped.
[[nodiscard]] inline bool sum_copy(uint32_t& crc, std::byte* to, const std::byte* from,
                                   size_t length) noexcept {
  WEFT_DCHECK(length == 0 || (to != nullptr && from != nullptr));
  struct Copy {
    uint32_t crc;
    std::byte* to;
    const std::byte* from;
    size_t length;
  } copy{crc, to, from, length};
  const auto run = [](void* argument) {
    Copy& c = *static_cast<Copy*>(argument);
    c.crc = wire::crc_copy(c.crc, c.to, c.from, c.length);
  };
  if (!memory::run_guarded(run, &copy)) return false;
  crc = copy.crc;
  return true;
}

}  // namespace weft::transport
