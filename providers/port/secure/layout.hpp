// SPDX-License-Identifier: BSD-3-Clause
// What a protected packet looks like in either protocol: how much of its header stays in clear, for
// who steers by it, and how it is told from a clear one. Byte 4 is masked where it is
// authenticated: switches write it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "lib/base/gid_hash.hpp"
#include "lib/wire/headers.hpp"
#include "lib/wire/protection.hpp"
#include "weft/types.hpp"

namespace weft::secure {

struct Layout {
  uint32_t header;     // bytes in clear, of which byte 0 is the opcode, 5..7 the destination
  uint8_t version;     // byte 1 of packets about keys
  uint32_t mark_at;    // the byte of the mark
  uint8_t mark;        // that says: protected
  uint32_t source_at;  // of packets about keys: the source, three bytes
  uint8_t request, grant, unknown_association;  // opcodes
  bool trims;                                   // switches may cut packets
};

inline constexpr Layout kSrdLayout{
    .header = sizeof(wire::SrdBase),
    .version = wire::kSrdVersion << 4,
    .mark_at = offsetof(wire::SrdBase, flags),
    .mark = wire::srd_flag::kProtected,
    .source_at = offsetof(wire::SrdBase, source),
    .request = static_cast<uint8_t>(wire::SrdKeyOpcode::request),
    .grant = static_cast<uint8_t>(wire::SrdKeyOpcode::grant),
    .unknown_association = static_cast<uint8_t>(wire::SrdKeyOpcode::unknown_association),
    .trims = true};

// The BTH stays in clear. The mark is the last reserved bit of the byte that has FECN and BECN.
inline constexpr Layout kRoceLayout{.header = sizeof(wire::Bth),
                                    .version = 0,
                                    .mark_at = offsetof(wire::Bth, resv8a),
                                    .mark = 0x01,
                                    .source_at = offsetof(wire::Bth, psn),
                                    .request = 0xFC,  // of the opcodes for manufacturers
                                    .grant = 0xFD,
                                    .unknown_association = 0xFE,
                                    .trims = false};

inline constexpr uint32_t kLargestHeader = sizeof(wire::SrdBase);
inline constexpr uint32_t kDestinationAt = 5;
inline constexpr uint32_t kMaskedAt = 4;
static_assert(offsetof(wire::SrdBase, dest) == kDestinationAt);
static_assert(offsetof(wire::SrdBase, digest) == kMaskedAt);
static_assert(offsetof(wire::Bth, dest_qpn) == kDestinationAt);
static_assert(offsetof(wire::Bth, resv8a) == kMaskedAt);

inline uint8_t byte_at(const std::byte* packet, uint32_t offset) noexcept {
  return static_cast<uint8_t>(packet[offset]);
}

// An open device: its address, and the top 8 bits of its queue pair numbers.
struct Endpoint {
  Gid address;
  uint8_t prefix = 0;

  bool operator==(const Endpoint&) const = default;
};

struct EndpointHash {
  size_t operator()(const Endpoint& e) const noexcept {
    return base::GidHash{}(e.address) + e.prefix * size_t{0x9E3779B97F4A7C15};
  }
};

// Who sends a packet about keys to whom.
struct Parties {
  Endpoint from, to;
};

}  // namespace weft::secure
