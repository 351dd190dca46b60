// SPDX-License-Identifier: BSD-3-Clause
// The proof that a schedule does what its shape says. It looks at nothing but the steps:
// - structure: dependencies point backwards, ranges lie inside the buffers, input is not written;
// - order: two steps of a rank that touch the same elements, one of them writing, depend on each
//   other, so that no timing changes the result and nothing is read before it is written; but those
//   that only add to the same memory need not, if the shape asks for no order;
// - progress: executed with links that hold a single message, all steps get done and no message is
//   left, so that no credit scheme with at least one slot can deadlock;
// - values: every element of every output holds each contribution exactly once, rounded once; and
//   all ranks get a sum that was made in any order from where it was made once.
// It costs memory for each element of all buffers: meant for shapes of small counts, and others are
// refused.
#pragma once

#include <vector>

#include "lib/collective/plan/schedule.hpp"
#include "weft/result.hpp"

namespace weft::collective {

inline constexpr uint32_t kMaxVerifiedRanks = 256;
inline constexpr uint64_t kMaxVerifiedElements = uint64_t{1} << 24;  // of all ranks' buffers

// `programs` has one program for each rank. The error names the rank, the step and what is wrong.
Result<void> verify(const Shape& shape, const std::vector<Program>& programs);

}  // namespace weft::collective
