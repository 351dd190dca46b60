// SPDX-License-Identifier: BSD-3-Clause
// The time of a schedule on a network, without running it. Every put is a flow over its route; at
// any moment the flows under way share the links max-min fairly. A flow takes its share from when
// its first byte comes to the first link that is narrow for it, of all that are in use when it
// starts, so near ranks give to a busy one before far ones do; a message is there when its flow has
// ended and the latency of the links from there on has passed. Steps wait for each other as they do
// when they are executed. Local steps and the reduction itself take no time.
#pragma once

#include <vector>

#include "lib/collective/model/topology.hpp"
#include "lib/collective/plan/algorithm.hpp"

namespace weft::collective {

struct Prediction {
  double seconds = 0;
  std::vector<double> link_bytes;  // that crossed each link
};

// Rank r is chip r. `element` and `accumulator` in bytes.
Prediction predict(const Shape& shape, const std::vector<Program>& programs, double element,
                   double accumulator, const Topology& topology, Routes& routes);

// The same, without all programs at once where ranks are alike (alike.hpp) and there are thousands.
Prediction predict(const Algorithm& algorithm, const Shape& shape, double element,
                   double accumulator, const Topology& topology, Routes& routes);

// What no schedule can beat, by arithmetic alone: the bytes that a cut must carry, over what it
// can; and for an all-reduce what all chips, or all racks, must give together.
struct Bound {
  double seconds = 0;
  std::string cut;
};
// `bytes` is the larger buffer of a rank. The largest bound of all the topology's cuts; none (zero)
// for one chip.
Bound lower_bound(Collective collective, double bytes, const Topology& topology);

}  // namespace weft::collective
