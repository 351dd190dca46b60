// SPDX-License-Identifier: BSD-3-Clause
// What is in the network at the end of a run, for the proof that nothing was lost without a name.
#pragma once

#include <cstdint>

#include "lib/sim/fabric/fabric.hpp"

namespace weft::sim::flow {

struct InNetwork {
  uint64_t packets = 0;     // on cables, in queues
  uint64_t acks = 0;        // of these, acknowledgements
  uint64_t pfc_frames = 0;  // not among the packets
};
InNetwork count_in_network(const fabric::Fabric& fabric, const fabric::EventWheel& wheel);

}  // namespace weft::sim::flow
