// SPDX-License-Identifier: BSD-3-Clause
// The outer headers of a packet, serialised and parsed: Ethernet with at most one VLAN tag, IPv4 or
// IPv6, UDP. For ports that handle whole frames (raw sockets, DPDK) and capture files.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "weft/types.hpp"

namespace weft::wire {

using MacAddress = std::array<uint8_t, 6>;

// The variable fields of the outer headers. IPv4 if both addresses are IPv4-mapped, else IPv6.
struct Outer {
  MacAddress mac_source{};
  MacAddress mac_destination{};
  uint16_t vlan = 0;          // 12 bits, 0 = no tag (or a priority tag, if vlan_priority is set)
  uint8_t vlan_priority = 0;  // 0..7
  uint8_t traffic_class = 0;  // DSCP << 2 | ECN
  uint8_t hop_limit = 64;     // IPv4: TTL
  uint16_t ip_id = 0;         // IPv4 only
  uint32_t flow_label = 0;    // IPv6 only, 20 bits
  Gid source;
  Gid destination;
  uint16_t source_port = 0xC000;
  uint16_t destination_port = 4791;  //= roce:C-HDR-7
  uint16_t udp_checksum = 0;         // 0 = none, which RoCEv2 allows for IPv4 and IPv6

  bool operator==(const Outer&) const = default;
  bool is_ipv4() const { return source.is_ipv4() && destination.is_ipv4(); }
};

// Ethernet 14 + VLAN 4 + IPv6 40 + UDP 8.
inline constexpr uint32_t kMaxOuterLength = 66;

// A MAC address for captures of ports without Ethernet: locally administered, 02:00 and the last
// four bytes of the GID.
inline MacAddress mac_of(const Gid& gid) noexcept {
  return {0x02, 0x00, gid.bytes[12], gid.bytes[13], gid.bytes[14], gid.bytes[15]};
}

// Bytes that emit_outer() will write.
uint32_t outer_length(const Outer& outer) noexcept;

inline constexpr uint32_t kMaxTransportLength = 65'000;

// Writes the outer headers of a packet of `transport_length` bytes (BTH to ICRC), at most
// kMaxTransportLength. Returns the bytes written. IPv4 carries DF and its header checksum.
uint32_t emit_outer(std::byte* at, const Outer& outer, uint32_t transport_length) noexcept;

// Writes the network header of UD receives: 40 bytes, an IPv6 header, or 20 zero bytes and an IPv4
// header (//= roce:C-OPS-84).
void emit_network_header(std::byte* at, const Outer& outer, uint32_t transport_length) noexcept;

// The UDP checksum of the packet, never 0. For receivers that require one over IPv6.
uint16_t udp_checksum(const Outer& outer, const std::byte* transport, uint32_t length) noexcept;

enum class OuterError : uint8_t {
  none,
  too_short,         // ends inside a header, or before its own length says
  not_ip,            // EtherType is neither IPv4 nor IPv6 (double tags too), or the version differs
  options,           // IPv4 header longer than 20 bytes
  bad_ip_checksum,   // IPv4 header checksum
  bad_address,       // an IPv4-mapped address in an IPv6 header
  fragment,          // a fragment (//= roce:C-HDR-8)
  may_fragment,      // IPv4 without DF, which the ICRC assumes to be set (//= roce:C-HDR-8)
  not_udp,           // another protocol, or an IPv6 extension header
  bad_length,        // IP length and UDP length do not agree (//= roce:C-HDR-8)
  bad_udp_checksum,  // not 0 and wrong (//= roce:C-HDR-7)
};
inline constexpr size_t kOuterErrorEnd = 11;
std::string_view name(OuterError error) noexcept;

// The transport part of a frame, from BTH to ICRC.
struct Transport {
  const std::byte* bytes = nullptr;
  uint32_t length = 0;
};

// Validates the outer headers of an Ethernet frame of `length` bytes. Ethernet padding after the IP
// packet is ignored. UDP ports are not checked, nor is the UDP checksum without `sums`: the NIC has
// checked it, or the sender's kernel left it to the NIC.
OuterError parse_outer(const std::byte* frame, uint32_t length, Outer& outer, Transport& transport,
                       bool sums = true) noexcept;

}  // namespace weft::wire
