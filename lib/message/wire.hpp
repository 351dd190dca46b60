// SPDX-License-Identifier: BSD-3-Clause
// The messages between two endpoints, each the payload of one ordered SEND, big endian:
//
//   byte 0      kind
//   byte 1      flags: 1 tagged, 2 with data, 4 the transfer failed (`finished`)
//   bytes 2-3   credits that the sender returns
//   bytes 4-7   the transfer (`announce`, `finished`), else 0
//   bytes 8-15  tag
//   bytes 16-23 immediate data
//   eager:      the payload follows
//   announce:   8 bytes of length, then 1 to 4 pieces of memory of the sender, each 8 bytes of
//               address, 8 of length and 4 of key: the receiver READs them and answers `finished`.
//               No piece with length 0
//
// Kinds from kFirstOther on are not of this protocol: the user may send messages of its own beside.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "weft/types.hpp"

namespace weft::message {

enum class Kind : uint8_t { eager = 1, announce, finished, credit, probe };
inline constexpr uint8_t kFirstOther = 64;

inline constexpr size_t kMaxPieces = 4;  // of memory, in a send or a receive
inline constexpr size_t kHeaderSize = 24;
inline constexpr size_t kPieceSize = 20;
inline constexpr size_t kMaxHeader = kHeaderSize + 8 + kMaxPieces * kPieceSize;

// Eager messages that either side may send before it is granted more.
inline constexpr uint32_t kFirstCredits = 16;
// Announced messages of a peer that are not finished.
inline constexpr uint32_t kMaxAnnounced = 4096;

struct RemotePiece {
  uint64_t address = 0;
  uint64_t length = 0;
  RKey key;
};

struct Header {
  Kind kind = Kind::eager;
  bool tagged = false, has_data = false, failed = false;
  uint16_t credits = 0;
  uint32_t transfer = 0;
  uint64_t tag = 0, data = 0;
  uint64_t length = 0;  // announce
  uint32_t piece_count = 0;
  std::array<RemotePiece, kMaxPieces> pieces;
};

// Writes the header to `out`, of kMaxHeader bytes; returns its size.
size_t write_header(const Header& header, std::byte* out) noexcept;
// Changes the credits of a header that was written.
void set_credits(std::byte* written, uint16_t credits) noexcept;
// Reads the header of a message from a peer; nothing if it is invalid. The payload of an eager
// message begins at kHeaderSize.
std::optional<Header> read_header(std::span<const std::byte> message) noexcept;

}  // namespace weft::message
