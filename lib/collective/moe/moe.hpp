// SPDX-License-Identifier: BSD-3-Clause
// Dispatch and combine: all-to-all over blocks for experts. All ranks exchange how many choices
// they have for each expert; from that each computes what is accepted and the destination of every
// row, without data about single tokens. In a network of racks the forwarding ranks also receive
// which rows are the same token, in one more operation.
#pragma once

#include "lib/collective/moe/count_exchange.hpp"
#include "weft/collective_moe.hpp"

namespace weft::collective {

struct RoutingState {
  uint64_t team = 0;  // Team::serial()
  uint32_t traffic_class = 2;
  uint32_t experts_per_rank = 1;
  uint64_t capacity = 0;
  std::vector<int32_t>
      experts;  // of this rank's choices, numbered by this group's ranks; or kMasked
  uint32_t choices = 1;
  std::vector<uint64_t> accepted;  // rows: [rank][expert]
  std::vector<uint64_t> row_of;    // by choice: row in the buffer packed by expert; or kNoRow
  std::vector<uint64_t> filled;    // rows of this rank's experts
  size_t dropped = 0, masked = 0;
  uint32_t racks = 1;
  std::vector<std::vector<uint32_t>> same;  // by rank and row, as in Blocks
  std::optional<Error> refused;             // why the dispatch is refused, on all ranks alike
  bool ready = false;
};
inline constexpr uint64_t kNoRow = UINT64_MAX;
inline constexpr int32_t kMasked = INT32_MIN;

using RoutingPtr = std::shared_ptr<RoutingState>;

uint64_t experts_of(const Team& team, const RoutingState& routing);
// Rows of this rank's choices.
uint64_t rows_packed(const Team& team, const RoutingState& routing);
// The blocks for rows of `width` elements.
Blocks blocks_of(const RoutingState& routing, uint64_t width);

// Errors: those of make_task; then nothing is issued.
Result<TaskPtr> issue_dispatch(Team& team, const DispatchCall& call, const RoutingPtr& routing,
                               const CallOptions& options);
Result<TaskPtr> issue_combine(Team& team, const CombineCall& call, const RoutingPtr& routing,
                              const CallOptions& options);

}  // namespace weft::collective
