// SPDX-License-Identifier: BSD-3-Clause
// Which address of a port its packets carry. A port has several: two protocols (RoCE v1 and v2)
// times link-local IPv6, other IPv6 and IPv4 of each network interface above it. Every verbs
// program has an option for the index; here the best one is taken unless the device string names
// another.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "providers/ibverbs/context/library.hpp"
#include "weft/types.hpp"

namespace weft::ibverbs {

struct GidEntry {
  uint8_t index = 0;
  Gid gid;
  bool v2 = false;  // RoCE v2: IP and UDP around the packets
};

// The entries of a port that are in use. The protocol of each is in sysfs.
std::vector<GidEntry> read_gids(const Library& library, ibv_context& context, uint8_t port,
                                int table_length);

// The network interface of an entry of the table, from sysfs; 0: not known.
uint32_t interface_of_entry(const ibv_context& context, uint8_t port, int index);

// iWARP has no GIDs: what stands there begins with the MAC of the port's interface. The first IP
// address of that, IPv4 before IPv6, stands in for one. Empty if there is none.
Gid address_of_mac(const Gid& mac);

// The entry that reaches most peers: RoCE v2 before v1, then IPv4, then IPv6 that is routed, then
// link-local; among equals the first. nullptr if there is none.
const GidEntry* choose_gid(std::span<const GidEntry> entries) noexcept;

}  // namespace weft::ibverbs
