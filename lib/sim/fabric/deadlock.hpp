// SPDX-License-Identifier: BSD-3-Clause
// PFC deadlock: a cycle of switches of which each waits for buffer at the next one.
#pragma once

#include <string>

#include "lib/sim/fabric/fabric.hpp"

namespace weft::sim::fabric {

// The nodes of such a cycle, "4 -> 5 -> 6 -> 4"; empty if a packet still moves, or none is queued.
// `stalled`: the caller has found that none moves, whatever events are scheduled.
std::string find_deadlock(const Topology& topology, const Fabric& fabric, const EventWheel& wheel,
                          bool stalled);

}  // namespace weft::sim::fabric
