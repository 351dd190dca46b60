// SPDX-License-Identifier: BSD-3-Clause
// Chooses the algorithm with the least predicted time on a network. Every rank has the same
// topology and computes the same times, so all choose the same. Times come from the flow model at
// sizes that are powers of four, computed on first use, with linear interpolation between them:
// exact unless another link becomes the bottleneck in between. Algorithms over forests are not
// among the candidates: their predictions take seconds.
#pragma once

#include <map>

#include "lib/collective/model/forests.hpp"
#include "lib/collective/model/topology.hpp"
#include "lib/collective/plan/algorithm.hpp"
#include "lib/collective/plan/model_correction.hpp"

namespace weft::collective {

// The arguments of a call that determine its time. Not for the _v forms.
struct CostQuery {
  Collective collective = Collective::all_reduce;
  uint64_t count = 0;       // elements, as in the call
  double element = 1;       // bytes
  double accumulator = 1;   // bytes
  bool exact = true;        // as in Shape
  bool rank_order = false;  // consider only algorithms that add in the order of ranks
};

struct Choice {
  const Algorithm* algorithm = nullptr;
  double seconds = 0;  // predicted
};

class Selector {
 public:
  // Rank r is chip r.
  explicit Selector(Topology topology)
      : topology_(std::move(topology)), routes_(topology_), forests_(topology_) {}
  Selector(const Selector&) = delete;
  Selector& operator=(const Selector&) = delete;

  const Topology& topology() const { return topology_; }
  Forests& forests() { return forests_; }
  Choice choose(const CostQuery& question);
  // The predicted time, times the correction from measured calls.
  double corrected_seconds(const Algorithm& algorithm, const CostQuery& question);
  ModelCorrection& correction() { return correction_; }
  double seconds(const Algorithm& algorithm, const CostQuery& question);

 private:
  double grid_seconds(const Algorithm& algorithm, CostQuery question, uint32_t exponent);

  using Key = std::tuple<const Algorithm*, uint32_t, double, double, bool>;
  Topology topology_;
  Routes routes_;
  Forests forests_;
  std::map<Key, double> grid_seconds_;
  ModelCorrection correction_;
};

// The predicted time of the schedule, without the table and the correction.
double model_seconds(const Algorithm& algorithm, const CostQuery& question,
                     const Topology& topology, Routes& routes);

}  // namespace weft::collective
