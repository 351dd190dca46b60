// SPDX-License-Identifier: BSD-3-Clause
// See icrc.hpp. The masked outer headers and BTH are composed in words, whose CRC is computed in
// one call; then the CRC continues over the rest of the packet.
#include "lib/wire/icrc.hpp"

#include <bit>
#include <cstring>
#include <initializer_list>

#include "lib/base/check.hpp"
#include "lib/wire/crc.hpp"
#include "lib/wire/crc_portable.hpp"
#include "lib/wire/headers.hpp"
#include "lib/wire/opcode.hpp"

namespace weft::wire {
namespace {

constexpr uint32_t kUdpHeader = 8;
constexpr uint32_t kIpv4Header = 20;
// Bytes of the IPv4 header after the identification.
constexpr uint32_t kIpv4AfterId = 14;
constexpr uint32_t kMinLength = kBthLength + kIcrcLength;
// The longest transport part that a UDP datagram over IPv4 can hold.
constexpr uint32_t kMaxLength = 65535 - kIpv4Header - kUdpHeader;

// Whether the GID is IPv4-mapped; compares words, because it runs for every packet.
bool is_ipv4(const Gid& gid) noexcept {
  uint64_t zeros;
  uint32_t mark;
  std::memcpy(&zeros, gid.bytes.data(), 8);
  std::memcpy(&mark, gid.bytes.data() + 8, 4);
  const uint32_t mapped = std::endian::native == std::endian::little ? 0xFFFF0000u : 0x0000FFFFu;
  return zeros == 0 && mark == mapped;
}

bool is_ipv4(const OuterHeader& outer) noexcept {
  return is_ipv4(*outer.source) && is_ipv4(*outer.destination);
}

constexpr bool kLittle = std::endian::native == std::endian::little;

// A number in network byte order.
uint32_t be32(uint32_t value) noexcept { return kLittle ? __builtin_bswap32(value) : value; }

// A word of two consecutive halves in memory.
uint64_t word(uint32_t first, uint32_t second) noexcept {
  return kLittle ? uint64_t{second} << 32 | first : uint64_t{first} << 32 | second;
}

// Loads 4 bytes: a load wider than the store that wrote the header could not be forwarded.
uint32_t half(const void* at, size_t offset) noexcept {
  uint32_t value;
  std::memcpy(&value, static_cast<const std::byte*>(at) + offset, sizeof value);
  return value;
}

uint32_t ports(const OuterHeader& outer) noexcept {
  return be32(static_cast<uint32_t>(outer.source_port) << 16 | outer.destination_port);
}

// Two words, from the UDP length and masked checksum to the end of the BTH, whose resv8a (F, B and
// six reserved bits) is masked. //= roce:C-CC-104
void put_length_and_bth(uint64_t* to, uint32_t udp_length, const std::byte* bth) noexcept {
  to[0] = word(be32(udp_length << 16 | 0xFFFF), half(bth, 0));
  to[1] = word(half(bth, 4) | be32(0xFF000000), half(bth, 8));
}

// The CRC of the constant first bytes.
constexpr uint32_t crc_of(uint32_t crc, std::initializer_list<uint8_t> bytes) {
  for (uint8_t byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (kCrcPolynomial & (0u - (crc & 1)));
  }
  return crc;
}

// After the masked LRH of InfiniBand.
constexpr uint32_t kAfterLrh = crc_of(~0u, {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF});
// And after IP version 6 with masked traffic class and flow label.
constexpr uint32_t kAfterFlowLabel = crc_of(kAfterLrh, {0x6F, 0xFF, 0xFF, 0xFF});

//= roce:C-ICRC-12
uint32_t begin_ipv4(const OuterHeader& outer, const std::byte* bth, uint32_t udp_length) noexcept {
  const uint32_t source = half(outer.source->bytes.data(), 12);
  const uint32_t destination = half(outer.destination->bytes.data(), 12);
  uint64_t words[5];
  // Version 4, IHL 5, TOS masked, total length; identification, DF.
  words[0] = word(be32(0x45FF0000u | ((udp_length + kIpv4Header) & 0xFFFF)),
                  be32(static_cast<uint32_t>(outer.ip_id) << 16 | 0x4000));
  words[1] = word(be32(0xFF11FFFFu), source);  // TTL masked, UDP, checksum masked
  words[2] = word(destination, ports(outer));
  put_length_and_bth(words + 3, udp_length, bth);
  return crc_words(kAfterLrh, words, 5);
}

//= roce:C-ICRC-13
uint32_t begin_ipv6(const OuterHeader& outer, const std::byte* bth, uint32_t udp_length) noexcept {
  const uint8_t* source = outer.source->bytes.data();
  const uint8_t* destination = outer.destination->bytes.data();
  uint64_t words[7];
  words[0] = word(be32(udp_length << 16 | 0x11FF), half(source, 0));  // UDP, hop limit masked
  words[1] = word(half(source, 4), half(source, 8));
  words[2] = word(half(source, 12), half(destination, 0));
  words[3] = word(half(destination, 4), half(destination, 8));
  words[4] = word(half(destination, 12), ports(outer));
  put_length_and_bth(words + 5, udp_length, bth);
  return crc_words(kAfterFlowLabel, words, 7);
}

uint32_t wire_value(const std::byte* at) noexcept {
  uint32_t value;
  std::memcpy(&value, at, sizeof value);
  if constexpr (std::endian::native == std::endian::big) value = __builtin_bswap32(value);
  return value;
}

// The XOR of the computed ICRC and that of the packet: 0 if it is right.
uint32_t residue(const OuterHeader& outer, const std::byte* bytes, uint32_t length) noexcept {
  return icrc(outer, bytes, length) ^ wire_value(bytes + length - kIcrcLength);
}

}  // namespace

//= roce:C-ICRC-11
uint32_t icrc_begin(const OuterHeader& outer, const std::byte* bth,
                    uint32_t transport_length) noexcept {
  WEFT_DCHECK(outer.source != nullptr && outer.destination != nullptr && bth != nullptr);
  const uint32_t udp_length = transport_length + kUdpHeader;
  return is_ipv4(outer) ? begin_ipv4(outer, bth, udp_length) : begin_ipv6(outer, bth, udp_length);
}

// Covers everything after the masked headers: extended headers, payload and pad.
//= roce:C-ICRC-14 roce:C-ICRC-16
uint32_t icrc(const OuterHeader& outer, const std::byte* bytes, uint32_t length) noexcept {
  WEFT_DCHECK(length >= kMinLength);
  const uint32_t crc = icrc_begin(outer, bytes, length);
  return icrc_finish(crc_continue(crc, bytes + kBthLength, length - kMinLength));
}

bool icrc_verify(const OuterHeader& outer, const std::byte* bytes, uint32_t length) noexcept {
  if (length < kMinLength || length > kMaxLength) return false;
  return residue(outer, bytes, length) == 0;
}

bool icrc_verify_unknown_id(OuterHeader& outer, const std::byte* bytes, uint32_t length) noexcept {
  if (length < kMinLength || length > kMaxLength) return false;
  const uint32_t difference = residue(outer, bytes, length);
  if (difference == 0) return true;
  if (!is_ipv4(outer)) return false;
  // CRC is linear, so the difference is the CRC (with initial value 0) of the difference of the
  // identifications followed by zeros. Rewinding over the zeros and the two bytes leaves that
  // difference in the low half of the register, first byte lowest, and zero in the high half.
  const uint32_t behind = kIpv4AfterId + kUdpHeader + length - kIcrcLength;
  const uint32_t id = crc_rewind(difference, behind + 2);
  if (id >> 16 != 0) return false;
  outer.ip_id ^= static_cast<uint16_t>((id & 0xFF) << 8 | id >> 8);
  return true;
}

}  // namespace weft::wire
