// SPDX-License-Identifier: BSD-3-Clause
// A plan is one rank's program in the form that execution wants: who waits for whom, and the puts
// and receives of each peer in order. Made once per shape and kept.
#pragma once

#include <memory>
#include <vector>

#include "lib/collective/plan/algorithm.hpp"

namespace weft::collective {

// Puts to one peer, or receives from it, in the order in which they meet the peer's.
struct PeerSteps {
  uint32_t peer = 0;
  std::vector<uint32_t> steps;
};

struct Plan {
  Shape shape;
  Program program;
  // What changes while it runs, at the beginning: per step, how many steps it waits for; then a
  // zero for each entry of `puts`, and two for each of `receives`.
  std::vector<uint32_t> initial;
  std::vector<uint32_t> followers;        // of all steps, one after the other
  std::vector<uint32_t> first_follower;   // steps + 1 entries
  std::vector<PeerSteps> puts, receives;  // of the peers that there are
  std::vector<uint32_t> local;            // local steps that wait for nothing
};

bool is_local(StepKind kind) noexcept;
bool is_receive(StepKind kind) noexcept;

std::shared_ptr<const Plan> make_plan(const Shape& shape, Program program);

// The plans used lately, by algorithm and shape.
class PlanCache {
 public:
  std::shared_ptr<const Plan> find(const Algorithm& algorithm, const Shape& shape, uint32_t rank);

 private:
  struct Entry {
    const Algorithm* algorithm;
    std::shared_ptr<const Plan> plan;
  };
  static constexpr size_t kEntries = 32;
  std::vector<Entry> entries_;  // the last used one first
};

}  // namespace weft::collective
