// SPDX-License-Identifier: BSD-3-Clause
// State that the parts of one combine share.
#pragma once

#include "lib/collective/moe/moe_racks.hpp"

namespace weft::collective {

struct Combining {
  CombineCall call;
  RoutingPtr routing;
  std::vector<float> weights;  // by choice
  bool over_racks = false;
  // Over racks: weights, sent to and received from the mirrors; partial sums likewise.
  MirrorNumbers weights_by_row;
  std::vector<std::byte> out, in;
  const std::byte* rows_at = nullptr;  // this rank's rows, packed

  // Of elements, and of what crosses between racks.
  Arithmetic arithmetic() const { return arithmetic_of(call.type, ReduceOp::sum); }
  DataType crossing_type() const;
  uint64_t crossing_width() const;  // its elements for a row
};
using CombiningPtr = std::shared_ptr<Combining>;

// False: the dispatch has failed or was canceled; then the task ends with that error.
bool dispatch_succeeded(Team& team, Task& task, const RoutingState& routing);

// Issues the parts before and after `rows`, which returns rows inside the racks; returns the last
// part. Errors: those of make_task; then nothing is issued.
Result<TaskPtr> issue_over_racks(Team& team, const CombiningPtr& combining, const TaskPtr& rows,
                                 const CallOptions& options);

// Token by token: weight * row, added up in the order of choices, with partial sums of other racks
// behind them in the order of racks, and rounded.
void accumulate_tokens(const Team& team, const Combining& combining, const std::byte* rows);

}  // namespace weft::collective
