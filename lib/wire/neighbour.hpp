// SPDX-License-Identifier: BSD-3-Clause
// Neighbour resolution on Ethernet, for ports without a kernel behind them: who has this address?
// ARP (RFC 826) asks for IPv4, Neighbour Discovery (RFC 4861, solicitation and advertisement only)
// for IPv6; here both are one message.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/wire/encapsulation.hpp"

namespace weft::wire {

// A question ("who has `target`? tell `sender`") or an answer ("`sender` is at `sender_mac`").
// IPv4 when the addresses are IPv4-mapped.
struct NeighbourMessage {
  bool is_question = true;
  MacAddress sender_mac{};
  Gid sender;
  Gid target;             // question: the address asked for; answer: the one who asked, or a group
  uint16_t vlan = 0;      // 0 = no tag
  bool overrides = true;  // an answer: also where another MAC address is known (RFC 4861 4.4)
};

// Ethernet 14 + VLAN 4 + IPv6 40 + ICMPv6 24 + option 8.
inline constexpr uint32_t kMaxNeighbourLength = 90;

// Takes an Ethernet frame apart. False: it is nothing of the kind, or damaged, or not meant for a
// neighbour (hop limit below 255), or its sender is no unicast address.
bool parse_neighbour(const std::byte* frame, uint32_t length, NeighbourMessage& message) noexcept;

// Writes a frame, and returns its length. It goes to `to`; a question without one, all zero, to all
// (IPv4) or to the target's solicited-node group (IPv6). An answer of IPv6 without `overrides` or
// to a group says so.
uint32_t emit_neighbour(std::byte* at, const NeighbourMessage& message,
                        const MacAddress& to) noexcept;

}  // namespace weft::wire
