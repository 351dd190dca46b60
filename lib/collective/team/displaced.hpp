// SPDX-License-Identifier: BSD-3-Clause
// Forms with blocks that do not lie one after the other.
#pragma once

#include <span>

#include "lib/collective/team/arguments.hpp"

namespace weft::collective {

// One entry for each rank.
struct BlockList {
  std::span<const size_t> counts, displacements;
};

// Says where the blocks of an all_to_all_v lie on this rank. Returns "" or what is wrong.
std::string displace(Blocks& blocks, uint32_t rank, uint32_t ranks, const BlockList& send,
                     const BlockList& receive, DataType type);

// An all_gather_v into displaced blocks; counts have one entry for each rank. Errors: those of
// make_task.
Result<TaskPtr> make_displaced_gather(Team& team, const Arguments& call, const BlockList& receive,
                                      const CallOptions& options);

}  // namespace weft::collective
