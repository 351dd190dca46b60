// SPDX-License-Identifier: BSD-3-Clause
// What ranks tell each other before a call whose blocks are not known: each has a row of numbers,
// and gets those of all. As all ranks see the same, all come to the same decision.
#pragma once

#include "lib/collective/team/arguments.hpp"

namespace weft::collective {

struct Rows {
  std::vector<int64_t> own;
  std::vector<int64_t> all;  // ranks * own.size(), once the task is done
  std::span<const int64_t> of(uint32_t rank) const {
    return std::span(all).subspan(rank * own.size(), own.size());
  }
};
using RowsPtr = std::shared_ptr<Rows>;

// Issues the task that shares the rows, before a call of collective `of` that needs them in its
// `prepare`. Errors: those of make_task; then nothing is issued.
Result<void> issue_rows(Team& team, const RowsPtr& rows, Collective of, const CallOptions& options);

// all_to_all_v whose counts are known to those who give only.
Result<TaskPtr> issue_discovered(Team& team, const Arguments& call,
                                 std::span<const size_t> send_counts, size_t capacity,
                                 std::span<size_t> receive_counts, const CallOptions& options);

}  // namespace weft::collective
