// SPDX-License-Identifier: BSD-3-Clause
// The v forms with displacements: blocks that are not contiguous.
#pragma once

#include <span>

#include "lib/collective/team/arguments.hpp"

namespace weft::collective {

// One entry for each rank.
struct BlockList {
  std::span<const size_t> counts, displacements;
};

// Sets the displacements of this rank's blocks of an all_to_all_v. Returns "" or why they are
// invalid.
std::string displace(Blocks& blocks, uint32_t rank, uint32_t ranks, const BlockList& send,
                     const BlockList& receive, DataType type);

// An all_gather_v into displaced blocks; counts have one entry for each rank. Errors: those of
// make_task.
Result<TaskPtr> make_displaced_gather(Team& team, const Arguments& call, const BlockList& receive,
                                      const CallOptions& options);

}  // namespace weft::collective
