// SPDX-License-Identifier: BSD-3-Clause
// The rank of this process: one of the processes that weft_coll starts, or the rank that mpirun,
// srun or torchrun has put into the environment.
#pragma once

#include <functional>
#include <string>

#include "tools/coll/options.hpp"

namespace weft::bench {

struct Placement {
  uint32_t rank = 0;
  uint32_t ranks = 1;
  std::string store;
  std::string directory;  // of the store, if it belongs to this job only
};

// The rank that a launcher has assigned, if there is a launcher. Errors: invalid_argument (no store
// is known: give --store).
Result<std::optional<Placement>> placement_from_environment(const CollOptions& options);

// Runs `body`, removes the job's directory, and returns the exit code of `body`. A rank that ends
// has met all others before, or has failed; none needs the directory any more.
int run_rank(const Placement& placement, const std::function<int(const Placement&)>& body);

// Forks options.ranks processes (default 2) that run `body` and exit with its result. Returns 0 if
// all of them exit with 0.
int run_local_ranks(const CollOptions& options, const std::function<int(const Placement&)>& body);

}  // namespace weft::bench
