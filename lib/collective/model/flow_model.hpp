// SPDX-License-Identifier: BSD-3-Clause
// Predicts the time of a schedule on a network. Every put is a flow over its route; at any moment
// the active flows share the links max-min fairly. A flow becomes active when its first byte
// reaches its first bottleneck (flow_loop.hpp), so near ranks load a busy link before far ones; its
// message arrives when the flow has ended and the latency of the rest of the route has passed.
// Steps depend on each other as in execution. Local steps and reductions take no time.
#pragma once

#include <vector>

#include "lib/collective/model/topology.hpp"
#include "lib/collective/plan/algorithm.hpp"

namespace weft::collective {

struct Prediction {
  double seconds = 0;
  std::vector<double> link_bytes;  // carried by each link
};

// Rank r is chip r. `element` and `accumulator` in bytes.
Prediction predict(const Shape& shape, const std::vector<Program>& programs, double element,
                   double accumulator, const Topology& topology, Routes& routes);

// The same. For thousands of chips it uses the symmetry of the schedule, if there is one
// (symmetric.hpp).
Prediction predict(const Algorithm& algorithm, const Shape& shape, double element,
                   double accumulator, const Topology& topology, Routes& routes);

// A lower bound for every schedule: the bytes that must cross a cut, over its capacity. Up to
// kMaxSynthesisChips the worst of all cuts is found (limits.hpp), but for all_to_all; of
// larger networks, and for all_to_all, the cuts that the topology names are tried.
struct Bound {
  double seconds = 0;
  std::string cut;
};
// 0 for one chip. `bytes`: the larger buffer of a rank.
Bound lower_bound(Collective collective, double bytes, const Topology& topology, uint32_t root = 0);

}  // namespace weft::collective
