// SPDX-License-Identifier: BSD-3-Clause
// Before a call whose block sizes are not known to all ranks, an all-gather exchanges them: each
// rank contributes a list of counts. All ranks have the same data then, and decide alike.
#pragma once

#include "lib/collective/team/arguments.hpp"

namespace weft::collective {

struct RankCounts {
  std::vector<int64_t> own;
  std::vector<int64_t> all;  // ranks * own.size(), once the task has ended
  std::span<const int64_t> of(uint32_t rank) const {
    return std::span(all).subspan(rank * own.size(), own.size());
  }
};
using RankCountsPtr = std::shared_ptr<RankCounts>;

// Issues the all-gather before a call of collective `of` that needs the counts in its `prepare`.
// Errors: those of make_task; then nothing is issued.
Result<void> issue_count_exchange(Team& team, const RankCountsPtr& counts, Collective of,
                                  const CallOptions& options);

// all_to_all_v whose counts are known to the sending ranks only.
Result<TaskPtr> issue_discovered(Team& team, const Arguments& call,
                                 std::span<const size_t> send_counts, size_t capacity,
                                 std::span<size_t> receive_counts, const CallOptions& options);

}  // namespace weft::collective
