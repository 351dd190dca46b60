// SPDX-License-Identifier: BSD-3-Clause
// What goes in front of a piece of data, and when it may be left out. Where order is kept (RC), a
// piece like the one before it, of the same call or of the same one made again, has no header: its
// immediate data say how far the call's number has gone on, and how much is consumed. So a small
// piece over shared memory is one line of cache, and no rank compares less than before.
#pragma once

#include <cstdint>
#include <optional>

#include "lib/collective/plan/call.hpp"

namespace weft::collective {

struct alignas(64) PieceHeader {
  Call call;
  uint64_t consumed = 0;  // slots of the other direction, since the beginning
  uint32_t bytes = 0;     // of payload
  // That the sender gives this peer in this call; in exchanges, in this transfer from here on.
  uint32_t pieces = 0;
  uint32_t placed = 0;  // 1: the payload is where the receiver invited it to
  uint32_t unused = 0;
};
static_assert(sizeof(PieceHeader) == 64);

// Immediate data of a piece without a header, from the lowest bit: 16 of `consumed`, 15 of how much
// the call's number is more than that of the piece before, and this one.
inline constexpr uint32_t kBare = uint32_t{1} << 31;
inline constexpr uint64_t kFarthest = 0x7FFF;

// These for `piece`, if `before` tells the rest of it.
inline std::optional<uint32_t> bare(const PieceHeader& before, const PieceHeader& piece) noexcept {
  const uint64_t on = piece.call.sequence - before.call.sequence;
  Call again = before.call;
  again.sequence = piece.call.sequence;
  if (on > kFarthest || again != piece.call || before.pieces != piece.pieces || piece.placed != 0)
    return std::nullopt;
  return kBare | static_cast<uint32_t>(on) << 16 | (piece.consumed & 0xFFFF);
}

// Its header again: makes that of the piece before into it. `consumed` is never less than `known`.
inline void go_on(PieceHeader& header, uint32_t immediate, uint32_t bytes,
                  uint64_t known) noexcept {
  header.call.sequence += immediate >> 16 & kFarthest;
  header.consumed = known + static_cast<uint16_t>(immediate - static_cast<uint32_t>(known));
  header.bytes = bytes;
}

}  // namespace weft::collective
