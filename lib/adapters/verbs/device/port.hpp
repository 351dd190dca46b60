// SPDX-License-Identifier: BSD-3-Clause
// The GID table and MTUs of the port, for address handles and queue pairs.
#pragma once

#include "lib/adapters/verbs/objects.hpp"

namespace weft::drop_in {

inline constexpr uint32_t kGidTableLength = 16;

// The largest MTU of the IBTA that is not more than `bytes`.
ibv_mtu mtu_of(uint32_t bytes) noexcept;
constexpr uint32_t bytes_of(ibv_mtu mtu) noexcept { return 128U << mtu; }

// Whether the entry `index` of the GID table is in use.
bool has_gid(const Context& context, uint32_t index) noexcept;
// The index of a GID, or -1.
int find_gid(const Context& context, const ibv_gid& gid) noexcept;

// RoCE v2 has no service level. ibv_wc::sl says how the network header of a datagram is to be read:
// bits 0..2 are 2 for IPv4 and 1 for IPv6, bit 3 is UDP.
constexpr uint8_t sl_of_datagrams(const Gid& own) noexcept { return 8 | (own.is_ipv4() ? 2 : 1); }

}  // namespace weft::drop_in
