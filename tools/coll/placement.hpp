// SPDX-License-Identifier: BSD-3-Clause
// Who we are among the ranks: one of the processes that weft_coll starts itself, or what mpirun,
// srun or torchrun says in the environment.
#pragma once

#include <functional>
#include <string>

#include "tools/coll/options.hpp"

namespace weft::bench {

struct Placement {
  uint32_t rank = 0;
  uint32_t ranks = 1;
  std::string store;
  std::string directory;  // of this job alone, if the store is in one
};

// The rank that a launcher gave this process, if one did. Errors: invalid_argument (there is no
// place to meet: say --store).
Result<std::optional<Placement>> placement_from_environment(const CollOptions& options);

// Runs `body` and returns what it does. The job's directory is gone when the last rank has ended: a
// rank that has come to its end met all others before, or tells them nothing any more.
int run_placed(const Placement& placement, const std::function<int(const Placement&)>& body);

// Forks options.ranks processes (default 2) that run `body` and exit with what it returns; the
// result is 0 if all did.
int run_local_ranks(const CollOptions& options, const std::function<int(const Placement&)>& body);

}  // namespace weft::bench
