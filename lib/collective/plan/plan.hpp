// SPDX-License-Identifier: BSD-3-Clause
// A plan is one rank's program in the form that execution needs: the followers of each step, and
// the puts and receives per peer in order. Made once per shape and cached.
#pragma once

#include <memory>
#include <vector>

#include "lib/collective/plan/algorithm.hpp"

namespace weft::collective {

// Puts to one peer, or receives from one peer, in program order: the k-th put matches the peer's
// k-th receive.
struct PeerSteps {
  uint32_t peer = 0;
  std::vector<uint32_t> steps;
};

struct Plan {
  Shape shape;
  Program program;
  // Initial values of the counters that change during execution: per step the number of its
  // dependencies; then one zero per entry of `puts` and two per entry of `receives`.
  std::vector<uint32_t> initial;
  std::vector<uint32_t> followers;        // steps that depend on a step, for all steps in order
  std::vector<uint32_t> first_follower;   // steps + 1 entries
  std::vector<PeerSteps> puts, receives;  // one entry per peer that has any
  std::vector<uint32_t> local;            // local steps without dependencies
};

bool is_local(StepKind kind) noexcept;
bool is_receive(StepKind kind) noexcept;

std::shared_ptr<const Plan> make_plan(const Shape& shape, Program program);

// The most recently used plans, by algorithm and shape.
class PlanCache {
 public:
  std::shared_ptr<const Plan> find(const Algorithm& algorithm, const Shape& shape, uint32_t rank);

 private:
  struct Entry {
    const Algorithm* algorithm;
    std::shared_ptr<const Plan> plan;
  };
  static constexpr size_t kEntries = 32;
  std::vector<Entry> entries_;  // most recently used first
};

}  // namespace weft::collective
