// SPDX-License-Identifier: BSD-3-Clause
// Address attributes of verbs in those of weft.
#pragma once

#include "lib/adapters/verbs/objects.hpp"

namespace weft::drop_in {

// 0, or the errno of an address that RoCE v2 cannot have or the device cannot reach.
int check_ah(const char* call, const Context& context, const ibv_ah_attr& attr) noexcept;
// Of an address that check_ah() has let pass.
AddressVector path_of(const Context& context, const ibv_ah_attr& attr) noexcept;
// A multicast group as the device can have it: an IPv6 group on a device whose address is IPv4
// stands for a group of 239/8, the same one everywhere. perftest's default group is IPv6.
Gid group_on(const Context& context, const Gid& group) noexcept;
// The reverse; what a path of weft does not hold is taken from `rest`.
ibv_ah_attr ah_attr_of(const AddressVector& path, const ibv_ah_attr& rest) noexcept;

}  // namespace weft::drop_in
