// SPDX-License-Identifier: BSD-3-Clause
// The programs of a call by a plan of MSCCL. A plan is proven (plan/verify.hpp) when it is made
// into one: over even and uneven counts, in place and not, cut into pieces, with accumulators as
// wide as elements and wider.
#pragma once

#include <memory>

#include "lib/collective/msccl/order.hpp"
#include "lib/collective/plan/algorithm.hpp"

namespace weft::collective {

class MscclProgram : public ProgramSource {
 public:
  // Errors: invalid_argument, which names the step that is wrong.
  static Result<std::unique_ptr<MscclProgram>> make(MscclPlan plan);

  Program program(const Shape& shape, uint32_t rank) const override;
  Result<void> fits(const Shape& shape) const override;
  uint64_t fingerprint() const override { return fingerprint_; }

  const MscclPlan& plan() const { return plan_; }
  uint32_t root() const { return root_; }

 private:
  MscclProgram(MscclPlan plan, MscclOrder order)
      : plan_(std::move(plan)), order_(std::move(order)), fingerprint_(fingerprint_of(order_)) {}
  static uint64_t fingerprint_of(const MscclOrder& order);
  Result<void> prove();
  Result<void> prove(const Shape& shape) const;

  MscclPlan plan_;
  MscclOrder order_;
  uint64_t fingerprint_;
  uint32_t root_ = 0;  // of broadcast and reduce
};

}  // namespace weft::collective
