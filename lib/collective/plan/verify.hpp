// SPDX-License-Identifier: BSD-3-Clause
// Proves that a schedule computes what its shape says, from the steps alone:
// - structure: dependencies point backwards, ranges are inside the buffers, input is not written;
// - order: two steps of a rank that access the same elements, one of them writing, depend on each
//   other, so timing cannot change the result and nothing is read before it is written; additions
//   to the same memory need not depend on each other if the shape allows any order;
// - progress: over links that hold a single message, all steps complete and no message is left
//   over, so no flow control with at least one credit can deadlock (//= threat:A24);
// - values: every element of every output holds each contribution exactly once, rounded once; a sum
//   added in any order is computed on one rank only, and copied to the others.
// Needs memory for each element of all buffers: for small counts, larger ones are refused.
#pragma once

#include <optional>
#include <vector>

#include "lib/collective/plan/schedule.hpp"
#include "weft/result.hpp"

namespace weft::collective {

inline constexpr uint32_t kMaxVerifiedRanks = 256;
inline constexpr uint64_t kMaxVerifiedElements = uint64_t{1} << 24;  // of all ranks' buffers

// `programs` has one program per rank. The error names the rank, the step and the violation.
Result<void> verify(const Shape& shape, const std::vector<Program>& programs);

// The step that an error of verify() names, if it is of one.
struct StepAt {
  uint32_t rank = 0;
  size_t step = 0;
};
std::optional<StepAt> step_of(const Error& error);

}  // namespace weft::collective
