// SPDX-License-Identifier: BSD-3-Clause
// Builds arbitrary frames, with any header, any payload and the ICRC of any path: for tests of
// attacks and broken peers, fuzzers and packet scripts.
#pragma once

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "lib/wire/emit.hpp"
#include "lib/wire/icrc.hpp"
#include "lib/wire/opcode.hpp"

namespace weft::wire {

struct Forgery {
  BthFields bth;
  // Values of the extended headers that the opcode has.
  uint64_t address = 0;
  RKey rkey;
  uint32_t length = 0;
  uint8_t syndrome = 0x1F;  // ACK, unlimited credit
  uint32_t msn = 0;
  uint64_t first = 0;  // swap or add; the original value of an atomic response
  uint64_t compare = 0;
  uint32_t imm = 0;  // or the key to invalidate
  uint32_t qkey = 0;
  QpNum source_qp;
  uint32_t srq = 0;
  uint32_t placement = kPlaceVisible;
  uint32_t selectivity = kSelectRange;
  Psn expected, lost_end;  // of a selective acknowledgement
  std::span<const std::byte> payload;
  std::optional<uint8_t> pad;  // a wrong pad count
};

// Writes the ICRC into the last four bytes.
inline void sign(const OuterHeader& outer, std::span<std::byte> frame) noexcept {
  const uint32_t sum = icrc(outer, frame.data(), static_cast<uint32_t>(frame.size()));
  for (size_t i = 0; i < kIcrcLength; ++i)
    frame[frame.size() - kIcrcLength + i] = static_cast<std::byte>(sum >> 8 * i);
}

// The frame, from the BTH to the ICRC.
inline std::vector<std::byte> forge(const OuterHeader& outer, const Forgery& f) {
  const OpcodeInfo& info = opcode_info(f.bth.opcode);
  const auto right_pad = static_cast<uint8_t>((0 - f.payload.size()) & 3);
  const uint8_t pad = f.pad.value_or(right_pad);
  std::vector<std::byte> frame(std::max<size_t>(info.header_length, kBthLength) + f.payload.size() +
                               pad + kIcrcLength);
  BthFields bth = f.bth;
  bth.pad = pad;
  std::byte* at = emit_bth(frame.data(), bth);
  if (info.xrceth) at = emit_xrceth(at, f.srq);
  if (info.feth) at = emit_feth(at, f.placement, f.selectivity);
  if (info.reth) at = emit_reth(at, f.address, f.rkey, f.length);
  if (info.aeth) at = emit_aeth(at, f.syndrome, f.msn);
  if (info.sack) at = emit_sack_eth(at, f.expected, f.lost_end);
  if (info.atomic_eth) at = emit_atomic_eth(at, f.address, f.rkey, f.first, f.compare);
  if (info.atomic_ack_eth) at = emit_atomic_ack_eth(at, f.first);
  if (info.deth) at = emit_deth(at, f.qkey, f.source_qp);
  if (info.imm || info.ieth) at = emit_imm(at, f.imm);
  if (!f.payload.empty()) std::memcpy(at, f.payload.data(), f.payload.size());
  sign(outer, frame);
  return frame;
}

}  // namespace weft::wire
