// SPDX-License-Identifier: BSD-3-Clause
// The queue pair of an id: attributes in the form of verbs.h, and its transitions.
#pragma once

#include "lib/adapters/verbs/rdmacm/objects.hpp"
#include "weft/qp.hpp"

namespace weft::rdmacm {

inline constexpr uint8_t kHopLimit = 64;
inline constexpr uint8_t kMostRetries = 7;  // of RNR: without limit

// The address attributes of a path from the device's address.
ibv_ah_attr ah_attributes(const Context& context, const AddressVector& path);
// The path MTU that a connection of the device has by default.
ibv_mtu path_mtu_of(const Context& context);

// Moves the queue pair of the id to RTR and RTS, or to ERR. Returns 0 or errno.
int move_to_rts(Id& id);
void move_to_err(Id& id);

}  // namespace weft::rdmacm
