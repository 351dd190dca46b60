// SPDX-License-Identifier: BSD-3-Clause
// What can be read from a fabric during and after a run.
#pragma once

#include <cstdint>

#include "lib/sim/fabric/fabric.hpp"

namespace weft::sim::fabric {

// True if no queue holds a packet and no account a byte.
bool empty(const Fabric& fabric) noexcept;
// Packets in egress queues, PFC frames included.
uint64_t queued_packets(const Fabric& fabric) noexcept;
// ps that data of the port was paused, up to `end`; the sum of several classes.
int64_t paused_time(const Fabric& fabric, uint32_t port, int64_t end) noexcept;
// The port has data queued behind a PAUSE.
bool blocked_by_pause(const Fabric& fabric, uint32_t port) noexcept;

}  // namespace weft::sim::fabric
