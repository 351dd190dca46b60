// SPDX-License-Identifier: BSD-3-Clause
// A completion queue in its channel.
#pragma once

#include "lib/adapters/verbs/objects.hpp"

namespace weft::drop_in {

// The queue's events are reported by its channel from now on. Returns 0 or errno.
int add_to_channel(Cq& cq) noexcept;
// They are no longer; returns how many were reported. 0 without a channel.
uint32_t remove_from_channel(Cq& cq) noexcept;

}  // namespace weft::drop_in
