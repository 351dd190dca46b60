// SPDX-License-Identifier: BSD-3-Clause
// Choosing by the model: of all algorithms that fit, the one of least predicted time on a network.
// Every rank has the same network and computes the same, so all choose the same. Times are taken
// from the flow model at sizes that are four times each other, when first asked for, and between
// them a straight line: a schedule's time grows so, but for where another link becomes the
// narrowest.
#pragma once

#include <map>

#include "lib/collective/model/topology.hpp"
#include "lib/collective/plan/algorithm.hpp"
#include "lib/collective/plan/learned.hpp"

namespace weft::collective {

// A call, as far as its time depends on it. Not for forms with blocks.
struct Question {
  Collective collective = Collective::all_reduce;
  uint64_t count = 0;       // elements, as in the call
  double element = 1;       // bytes
  double accumulator = 1;   // bytes
  bool exact = true;        // as in Shape
  bool rank_order = false;  // only algorithms that add in the order of ranks
};

struct Choice {
  const Algorithm* algorithm = nullptr;
  double seconds = 0;  // predicted
};

class Selector {
 public:
  // Rank r is chip r.
  explicit Selector(Topology topology) : topology_(std::move(topology)), routes_(topology_) {}
  Selector(const Selector&) = delete;
  Selector& operator=(const Selector&) = delete;

  const Topology& topology() const { return topology_; }
  Choice choose(const Question& question);
  // The model's time, times what was learned from calls.
  double expected(const Algorithm& algorithm, const Question& question);
  Learned& learned() { return learned_; }
  double seconds(const Algorithm& algorithm, const Question& question);

 private:
  double at_grid(const Algorithm& algorithm, Question question, uint32_t exponent);

  using Key = std::tuple<const Algorithm*, uint32_t, double, double, bool>;
  Topology topology_;
  Routes routes_;
  std::map<Key, double> known_;
  Learned learned_;
};

// The time of the schedule itself, not from the table.
double model_seconds(const Algorithm& algorithm, const Question& question, const Topology& topology,
                     Routes& routes);

}  // namespace weft::collective
