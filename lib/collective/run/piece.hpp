// SPDX-License-Identifier: BSD-3-Clause
// The header of a piece of data, and its compressed form. Where order is kept (RC), a piece like
// the one before it, of the same call or of the same call repeated, has no header: its immediate
// data hold the difference of the sequence numbers and the credit. So a small piece over shared
// memory is one cache line, and ranks still compare the whole call.
#pragma once

#include <cstdint>
#include <optional>

#include "lib/collective/plan/call.hpp"

namespace weft::collective {

struct alignas(64) PieceHeader {
  Call call;
  uint64_t consumed = 0;  // credit: pieces of the other direction, since the link exists
  uint32_t bytes = 0;     // of payload
  // To this peer in this call; in exchanges, those left in this transfer.
  uint32_t pieces = 0;
  uint32_t placed = 0;  // 1: the payload is in the memory that the receiver advertised
  uint32_t unused = 0;
};
static_assert(sizeof(PieceHeader) == 64);

// Immediate data of a compressed header, from the lowest bit: 16 of `consumed`, 15 of the sequence
// number's difference, and this one.
inline constexpr uint32_t kCompressed = uint32_t{1} << 31;
inline constexpr uint64_t kMaxSequenceDelta = 0x7FFF;

// The immediate data that stand for the header of `piece` behind `before`, if that is possible.
inline std::optional<uint32_t> compress(const PieceHeader& before,
                                        const PieceHeader& piece) noexcept {
  const uint64_t delta = piece.call.sequence - before.call.sequence;
  Call expected = before.call;
  expected.sequence = piece.call.sequence;
  if (delta > kMaxSequenceDelta || expected != piece.call || before.pieces != piece.pieces ||
      piece.placed != 0)
    return std::nullopt;
  return kCompressed | static_cast<uint32_t>(delta) << 16 | (piece.consumed & 0xFFFF);
}

// Makes the header of the piece before into that of this one. `known`: the credit known before,
// which `consumed` is not less than.
inline void expand(PieceHeader& header, uint32_t immediate, uint32_t bytes,
                   uint64_t known) noexcept {
  header.call.sequence += immediate >> 16 & kMaxSequenceDelta;
  header.consumed = known + static_cast<uint16_t>(immediate - static_cast<uint32_t>(known));
  header.bytes = bytes;
}

}  // namespace weft::collective
