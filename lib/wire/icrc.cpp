// SPDX-License-Identifier: BSD-3-Clause
// The ICRC: a masked copy of the outer headers and the BTH is built on the stack and summed in one
// call, then the CRC continues over the packet itself.
#include "lib/wire/icrc.hpp"

#include <cstring>

#include "lib/wire/crc_portable.hpp"
#include "lib/wire/emit.hpp"
#include "lib/wire/opcode.hpp"

namespace weft::wire {
namespace {

constexpr uint32_t kUdpHeader = 8;
constexpr uint32_t kIpv4Header = 20;
// Bytes of the IPv4 header behind the identification.
constexpr uint32_t kIpv4AfterId = 14;
constexpr uint32_t kMinLength = kBthLength + kIcrcLength;
// The longest transport part that a UDP datagram over IPv4 can hold.
constexpr uint32_t kMaxLength = 65535 - kIpv4Header - kUdpHeader;

// IPv4-mapped, by words: this runs for every packet.
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

std::byte* put_udp(std::byte* at, const OuterHeader& outer, uint32_t udp_length) noexcept {
  at = detail::store_be32(at,
                          static_cast<uint32_t>(outer.source_port) << 16 | outer.destination_port);
  return detail::store_be32(at, udp_length << 16 | 0xFFFF);  // checksum masked
}

// BTH with resv8a (F, B and six reserved bits) masked.
std::byte* put_bth(std::byte* at, const std::byte* bth) noexcept {
  std::memcpy(at, bth, kBthLength);
  at[4] = std::byte{0xFF};
  return at + kBthLength;
}

//= roce:C-ICRC-12
uint32_t begin_ipv4(const OuterHeader& outer, const std::byte* bth, uint32_t udp_length) noexcept {
  std::byte scratch[8 + kIpv4Header + kUdpHeader + kBthLength];
  std::byte* at = detail::store_be64(scratch, ~uint64_t{0});  // the LRH of InfiniBand, masked
  // Version 4, IHL 5, TOS masked, total length.
  at = detail::store_be32(at, 0x45FF0000u | ((udp_length + kIpv4Header) & 0xFFFF));
  at = detail::store_be32(at, static_cast<uint32_t>(outer.ip_id) << 16 | 0x4000);  // DF
  at = detail::store_be32(at, 0xFF11FFFFu);  // TTL masked, UDP, checksum masked
  std::memcpy(at, outer.source->bytes.data() + 12, 4);
  std::memcpy(at + 4, outer.destination->bytes.data() + 12, 4);
  put_bth(put_udp(at + 8, outer, udp_length), bth);
  return crc_continue(~0u, scratch, sizeof scratch);
}

//= roce:C-ICRC-13
uint32_t begin_ipv6(const OuterHeader& outer, const std::byte* bth, uint32_t udp_length) noexcept {
  std::byte scratch[8 + 40 + kUdpHeader + kBthLength];
  std::byte* at = detail::store_be64(scratch, ~uint64_t{0});
  at = detail::store_be32(at, 0x6FFFFFFFu);  // version 6; traffic class and flow label masked
  at = detail::store_be32(at, udp_length << 16 | 0x11FF);  // UDP, hop limit masked
  std::memcpy(at, outer.source->bytes.data(), 16);
  std::memcpy(at + 16, outer.destination->bytes.data(), 16);
  put_bth(put_udp(at + 32, outer, udp_length), bth);
  return crc_continue(~0u, scratch, sizeof scratch);
}

uint32_t wire_value(const std::byte* at) noexcept {
  uint32_t value;
  std::memcpy(&value, at, sizeof value);
  if constexpr (std::endian::native == std::endian::big) value = __builtin_bswap32(value);
  return value;
}

// The difference between the raw CRC of the packet and the one it carries: 0 if it is right.
uint32_t residue(const OuterHeader& outer, const std::byte* bytes, uint32_t length) noexcept {
  return icrc(outer, bytes, length) ^ wire_value(bytes + length - kIcrcLength);
}

}  // namespace

//= roce:C-ICRC-11
uint32_t icrc_begin(const OuterHeader& outer, const std::byte* bth,
                    uint32_t transport_length) noexcept {
  const uint32_t udp_length = transport_length + kUdpHeader;
  return is_ipv4(outer) ? begin_ipv4(outer, bth, udp_length) : begin_ipv6(outer, bth, udp_length);
}

// Everything behind the masked headers counts: extended headers, payload and pad, or nothing.
//= roce:C-ICRC-14 roce:C-ICRC-16
uint32_t icrc(const OuterHeader& outer, const std::byte* bytes, uint32_t length) noexcept {
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
  // CRC is linear, so the difference is the CRC (from zero) of the identification's difference
  // followed by zeros. Going back over those zeros and over the two bytes themselves leaves the
  // difference in the low half of the register, first byte lowest, and nothing in the high half.
  const uint32_t behind = kIpv4AfterId + kUdpHeader + length - kIcrcLength;
  const uint32_t id = crc_rewind(difference, behind + 2);
  if (id >> 16 != 0) return false;
  outer.ip_id ^= static_cast<uint16_t>((id & 0xFF) << 8 | id >> 8);
  return true;
}

}  // namespace weft::wire
