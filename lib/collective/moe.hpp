// SPDX-License-Identifier: BSD-3-Clause
// Dispatch and combine: all-to-all over blocks for experts. All ranks tell each other how many
// choices they have for each expert; from that each computes what is accepted, and so where every
// row goes, without sending a word about single tokens.
#pragma once

#include "lib/collective/rows.hpp"
#include "weft/collective_moe.hpp"

namespace weft::collective {

struct RoutingState {
  uint64_t team = 0;  // Team::serial()
  uint32_t experts_per_rank = 1;
  uint64_t capacity = 0;
  std::vector<int32_t> experts;  // of this rank's choices
  uint32_t choices = 1;
  std::vector<uint64_t> accepted;  // rows: [rank][expert]
  std::vector<uint64_t> row_of;    // of each choice in a buffer packed by expert; or kNoRow
  std::vector<uint64_t> filled;    // rows of this rank's experts
  size_t dropped = 0;
  bool ready = false;
};
inline constexpr uint64_t kNoRow = UINT64_MAX;

using RoutingPtr = std::shared_ptr<RoutingState>;

// Errors: those of make_task; then nothing is issued.
Result<TaskPtr> issue_dispatch(Team& team, const DispatchCall& call, const RoutingPtr& routing,
                               const CallOptions& options);
Result<TaskPtr> make_combine(Team& team, const CombineCall& call, const RoutingPtr& routing,
                             const CallOptions& options);

}  // namespace weft::collective
