// SPDX-License-Identifier: BSD-3-Clause
// The invariant CRC of RoCEv2 (IBTA annex A17.3.3): CRC-32 over the packet from the IP header on,
// with variable fields replaced by ones. It covers the addresses and the IPv4 identification, so
// both sides must know them; icrc_verify_unknown_id() is for sockets, which do not report the
// latter.
#pragma once

#include <cstddef>
#include <cstdint>

#include "weft/types.hpp"

namespace weft::wire {

// The fields of the outer headers that the ICRC covers.
struct OuterHeader {
  const Gid* source = nullptr;
  const Gid* destination = nullptr;
  uint16_t source_port = 0;
  uint16_t destination_port = 4791;
  uint16_t ip_id = 0;  // IPv4 only
};

// Continues a raw (uninverted) reflected CRC-32 over `size` bytes. Start from ~0u.
uint32_t crc_continue(uint32_t crc, const std::byte* data, size_t size) noexcept;

// Copies `size` bytes and continues the CRC over the copy, in one pass: the CRC is right for the
// copy even if the source changes meanwhile.
uint32_t crc_copy(uint32_t crc, std::byte* to, const std::byte* from, size_t size) noexcept;

// The raw CRC over the masked pseudo-header and the masked BTH (12 bytes at `bth`).
// `transport_length`: bytes from BTH to ICRC inclusive. //= roce:C-ICRC-11 roce:C-ICRC-12 C-ICRC-13
uint32_t icrc_begin(const OuterHeader& outer, const std::byte* bth,
                    uint32_t transport_length) noexcept;

// The ICRC of a raw CRC, as a little-endian integer.
constexpr uint32_t icrc_finish(uint32_t crc) { return ~crc; }

// The ICRC of a packet of `length` bytes from BTH to ICRC inclusive.
uint32_t icrc(const OuterHeader& outer, const std::byte* bytes, uint32_t length) noexcept;

// True if the last four of `length` bytes hold the right ICRC.
bool icrc_verify(const OuterHeader& outer, const std::byte* bytes, uint32_t length) noexcept;

// The same for an unknown identification, of which outer.ip_id is a guess: CRC is linear, so the 16
// unknown bits are solved for. True if a solution exists, which is written to outer.ip_id; 16 bits
// of check remain.
bool icrc_verify_unknown_id(OuterHeader& outer, const std::byte* bytes, uint32_t length) noexcept;

}  // namespace weft::wire
