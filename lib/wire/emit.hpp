// SPDX-License-Identifier: BSD-3-Clause
// Serialisation of transport headers: each function writes one header at `at` and returns the
// address after it. The caller has checked that there is room. Whole words are stored: this runs
// once per packet sent.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "lib/base/check.hpp"
#include "lib/wire/headers.hpp"
#include "weft/types.hpp"

namespace weft::wire {

namespace detail {

inline std::byte* store_be32(std::byte* at, uint32_t value) noexcept {
  if constexpr (std::endian::native == std::endian::little) value = __builtin_bswap32(value);
  std::memcpy(at, &value, sizeof value);
  return at + sizeof value;
}

inline std::byte* store_be64(std::byte* at, uint64_t value) noexcept {
  if constexpr (std::endian::native == std::endian::little) value = __builtin_bswap64(value);
  std::memcpy(at, &value, sizeof value);
  return at + sizeof value;
}

}  // namespace detail

// The variable fields of a BTH. TVer, F and the reserved bits are zero. MigReq is 1 (Migrated): the
// state of a queue pair without an alternate path, which NICs send and compare. Only a CNP carries
// 0 (IBTA A17.9.3).
struct BthFields {
  uint8_t opcode = 0;
  bool solicited = false;
  bool ack_request = false;
  uint8_t pad = 0;  // 0..3
  QpNum dest;
  Psn psn;
  uint16_t pkey = 0xFFFF;
  bool mig_req = true;
  bool becn = false;  // of a CNP
};

// MigReq and P_Key in the first word of a BTH, which are the same in all packets of a queue pair.
constexpr uint32_t bth_constants(bool mig_req, uint16_t pkey = 0xFFFF) noexcept {
  return static_cast<uint32_t>(mig_req) << 22 | pkey;
}

// With `constants` in place of the fields mig_req and pkey.
//= roce:C-HDR-1 roce:C-HDR-113 roce:C-HDR-121
inline std::byte* emit_bth(std::byte* at, const BthFields& f, uint32_t constants) noexcept {
  WEFT_DCHECK(f.pad <= 3);
  const uint32_t flags = static_cast<uint32_t>(f.solicited) << 23 | (f.pad & 3u) << 20;
  at = detail::store_be32(at, static_cast<uint32_t>(f.opcode) << 24 | flags | constants);
  at = detail::store_be32(at, static_cast<uint32_t>(f.becn) << 30 | (f.dest.value & 0xFFFFFF));
  return detail::store_be32(
      at, static_cast<uint32_t>(f.ack_request) << 31 | (f.psn.value & Psn::kMask));
}

inline std::byte* emit_bth(std::byte* at, const BthFields& f) noexcept {
  return emit_bth(at, f, bth_constants(f.mig_req, f.pkey));
}

inline std::byte* emit_xrceth(std::byte* at, uint32_t srq) noexcept {
  return detail::store_be32(at, srq & 0xFFFFFF);
}

inline std::byte* emit_feth(std::byte* at, uint32_t placement, uint32_t selectivity) noexcept {
  return detail::store_be32(at, (selectivity & 3) << 4 | (placement & 0xF));
}

//= roce:C-HDR-6
inline std::byte* emit_reth(std::byte* at, uint64_t address, RKey rkey, uint32_t length) noexcept {
  at = detail::store_be64(at, address);
  at = detail::store_be32(at, rkey.value);
  return detail::store_be32(at, length);
}

inline std::byte* emit_aeth(std::byte* at, uint8_t syndrome, uint32_t msn) noexcept {
  return detail::store_be32(at, static_cast<uint32_t>(syndrome) << 24 | (msn & 0xFFFFFF));
}

inline std::byte* emit_sack_eth(std::byte* at, Psn expected, Psn lost_end) noexcept {
  at = detail::store_be32(at, expected.value & Psn::kMask);
  return detail::store_be32(at, lost_end.value & Psn::kMask);
}

inline std::byte* emit_atomic_eth(std::byte* at, uint64_t address, RKey rkey, uint64_t swap_or_add,
                                  uint64_t compare) noexcept {
  at = detail::store_be64(at, address);
  at = detail::store_be32(at, rkey.value);
  at = detail::store_be64(at, swap_or_add);
  return detail::store_be64(at, compare);
}

inline std::byte* emit_atomic_ack_eth(std::byte* at, uint64_t original) noexcept {
  return detail::store_be64(at, original);
}

// Immediate data.
inline std::byte* emit_imm(std::byte* at, uint32_t imm) noexcept {
  return detail::store_be32(at, imm);
}

// The key to invalidate.
inline std::byte* emit_ieth(std::byte* at, RKey rkey) noexcept {
  return detail::store_be32(at, rkey.value);
}

inline std::byte* emit_deth(std::byte* at, uint32_t qkey, QpNum source) noexcept {
  at = detail::store_be32(at, qkey);
  return detail::store_be32(at, source.value & 0xFFFFFF);
}

}  // namespace weft::wire
