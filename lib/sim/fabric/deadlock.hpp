// SPDX-License-Identifier: BSD-3-Clause
// PFC in a circle: every switch waits for room at the next one, and nothing moves any more.
#pragma once

#include <string>

#include "lib/sim/fabric/fabric.hpp"

namespace weft::sim::fabric {

// The nodes of such a circle, "4 -> 5 -> 6 -> 4"; empty if something still moves, or nothing waits.
// `stalled`: nothing does, whatever events are planned.
std::string find_deadlock(const Topology& topology, const Fabric& fabric, const EventWheel& wheel,
                          bool stalled);

}  // namespace weft::sim::fabric
