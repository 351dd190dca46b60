// SPDX-License-Identifier: BSD-3-Clause
// Parameters of the switches of a fabric.
#pragma once

#include <cstdint>

#include "lib/sim/fabric/classes.hpp"
#include "lib/sim/fabric/telemetry.hpp"
#include "weft/simulation.hpp"

namespace weft::sim::fabric {

// Sizes in bytes.
struct Settings {
  bool whole_ns = true;  // serialisation times are truncated to whole nanoseconds
  uint32_t largest_packet = 0;
  uint64_t buffer = 0;           // per switch
  uint32_t reserve = 0;          // per ingress port
  double headroom_factor = 3;    // headroom = this x rate x delay
  uint32_t threshold_shift = 3;  // threshold = free shared buffer >> this, at NIC rate and below
  uint32_t resume_offset = 0;
  uint32_t pause_bytes = 0;  // size of a PFC frame; 0: out of band
  uint32_t pause_at = 0;     // fixed PFC threshold; 0: the dynamic one of threshold_shift
  bool pfc = true;
  double kmin_bytes_per_gbps = 0;
  double kmax_bytes_per_gbps = 0;
  double pmax = 0;  // marking probability at kmax; 0: no ECN
  const simulation::QueueDiscipline* discipline = nullptr;  // marks and drops, in place of kmin
  TelemetrySettings telemetry;
  ClassWeights class_weights{};  // of several data classes
  // Of fabrics for sprayed packets.
  bool sprayed = false;
  bool trims = true;  // false: a packet that does not fit is dropped
  uint32_t trimmed_bytes = 0;
  double queue_bytes_per_gbps = 0;  // data capacity of an egress port; control has twice that
  bool marks_last_hop = true;       // the link to the receiver marks too
};

}  // namespace weft::sim::fabric
