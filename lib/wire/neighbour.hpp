// SPDX-License-Identifier: BSD-3-Clause
// Neighbour resolution on Ethernet, for ports that bypass the kernel: ARP (RFC 826) for IPv4,
// Neighbour Discovery (RFC 4861, solicitation and advertisement only) for IPv6; here both are one
// message.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/wire/encapsulation.hpp"

namespace weft::wire {

// A request ("who has `target`? tell `sender`") or a reply ("`sender` is at `sender_mac`"). IPv4 if
// the addresses are IPv4-mapped.
struct NeighbourMessage {
  bool is_question = true;
  MacAddress sender_mac{};
  Gid sender;
  Gid target;             // request: the address to resolve; reply: the requester, or a group
  uint16_t vlan = 0;      // 0 = no tag
  bool overrides = true;  // reply: replaces a cached MAC address (override flag, RFC 4861 4.4)
};

// Ethernet 14 + VLAN 4 + IPv6 40 + ICMPv6 24 + option 8.
inline constexpr uint32_t kMaxNeighbourLength = 90;

// Parses an Ethernet frame. False: another kind of frame, malformed, routed (hop limit below 255),
// or its sender is not a unicast address.
bool parse_neighbour(const std::byte* frame, uint32_t length, NeighbourMessage& message) noexcept;

// Writes a frame to `to` and returns its length. A request to the zero address is broadcast (IPv4)
// or sent to the target's solicited-node group (IPv6). The flags of an IPv6 reply follow
// `overrides` and whether `target` is a group.
uint32_t emit_neighbour(std::byte* at, const NeighbourMessage& message,
                        const MacAddress& to) noexcept;

}  // namespace weft::wire
