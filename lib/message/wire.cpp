// SPDX-License-Identifier: BSD-3-Clause
// See wire.hpp.
#include "lib/message/wire.hpp"

#include <cstring>

#include "lib/base/bytes.hpp"
#include "lib/base/check.hpp"

namespace weft::message {
namespace {

template <class T>
using Big = base::BigEndian<T>;

struct Base {
  uint8_t kind;
  uint8_t flags;
  Big<uint16_t> credits;
  Big<uint32_t> transfer;
  Big<uint64_t> tag;
  Big<uint64_t> data;
};
static_assert(sizeof(Base) == kHeaderSize);

struct Piece {
  Big<uint64_t> address;
  Big<uint64_t> length;
  Big<uint32_t> key;
};
static_assert(sizeof(Piece) == kPieceSize);

constexpr uint8_t kTagged = 1, kData = 2, kFailed = 4;

bool read_pieces(std::span<const std::byte> message, Header& header) noexcept {
  Big<uint64_t> length;
  const size_t pieces_at = kHeaderSize + sizeof length;
  if (message.size() < pieces_at) return false;
  std::memcpy(&length, message.data() + kHeaderSize, sizeof length);
  const size_t bytes = message.size() - pieces_at;
  if (bytes % kPieceSize != 0 || bytes / kPieceSize > kMaxPieces) return false;
  header.length = length;
  header.piece_count = static_cast<uint32_t>(bytes / kPieceSize);
  uint64_t sum = 0;
  for (uint32_t i = 0; i < header.piece_count; ++i) {
    Piece piece;
    std::memcpy(&piece, message.data() + pieces_at + i * kPieceSize, sizeof piece);
    header.pieces[i] = {piece.address, piece.length, {piece.key}};
    if (piece.length == 0 || piece.length > header.length - sum) return false;
    sum += piece.length;
  }
  return sum == header.length;
}

}  // namespace

size_t write_header(const Header& header, std::byte* out) noexcept {
  WEFT_DCHECK(header.tagged || header.tag == 0);
  WEFT_DCHECK(header.piece_count <= kMaxPieces);
  Base base{};
  base.kind = static_cast<uint8_t>(header.kind);
  base.flags = static_cast<uint8_t>((header.tagged ? kTagged : 0) | (header.has_data ? kData : 0) |
                                    (header.failed ? kFailed : 0));
  base.credits = header.credits;
  base.transfer = header.transfer;
  base.tag = header.tag;
  base.data = header.data;
  std::memcpy(out, &base, sizeof base);
  if (header.kind != Kind::announce) return kHeaderSize;
  const Big<uint64_t> length = header.length;
  std::memcpy(out + kHeaderSize, &length, sizeof length);
  std::byte* at = out + kHeaderSize + sizeof length;
  for (uint32_t i = 0; i < header.piece_count; ++i, at += kPieceSize) {
    Piece piece{};
    piece.address = header.pieces[i].address;
    piece.length = header.pieces[i].length;
    piece.key = header.pieces[i].key.value;
    std::memcpy(at, &piece, sizeof piece);
  }
  return static_cast<size_t>(at - out);
}

void set_credits(std::byte* written, uint16_t credits) noexcept {
  const Big<uint16_t> value = credits;
  std::memcpy(written + offsetof(Base, credits), &value, sizeof value);
}

std::optional<Header> read_header(std::span<const std::byte> message) noexcept {
  if (message.size() < kHeaderSize) return {};
  Base base;
  std::memcpy(&base, message.data(), sizeof base);
  Header header;
  if (base.kind < static_cast<uint8_t>(Kind::eager) ||
      base.kind > static_cast<uint8_t>(Kind::probe) || base.flags > (kTagged | kData | kFailed))
    return {};
  header.kind = static_cast<Kind>(base.kind);
  header.tagged = (base.flags & kTagged) != 0;
  header.has_data = (base.flags & kData) != 0;
  header.failed = (base.flags & kFailed) != 0;
  header.credits = base.credits;
  header.transfer = base.transfer;
  header.tag = base.tag;
  header.data = base.data;
  if (!header.tagged && header.tag != 0) return {};
  if (header.kind == Kind::announce)
    return read_pieces(message, header) ? std::optional(header) : std::nullopt;
  if (header.kind != Kind::eager && message.size() != kHeaderSize) return {};
  return header;
}

}  // namespace weft::message
