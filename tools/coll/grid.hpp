// SPDX-License-Identifier: BSD-3-Clause
// `weft_coll grid`: the quality of choices and predictions over operations, sizes and networks.
// Every applicable algorithm is simulated packet by packet, and compared with the selector's
// choice, its prediction and the lower bound.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft::bench {

struct GridOptions {
  std::vector<std::string> networks;    // names for read_topology(), or switch:CHIPS
  std::vector<std::string> operations;  // empty: all with a lower bound
  std::vector<std::string> sizes = {"4KiB", "64KiB", "1MiB", "16MiB", "256MiB"};
  double max_over_best = 1.1;  // limit: time of the chosen algorithm / time of the best
  double max_error = 0.15;     // limit of the median relative prediction error
  bool all = false;            // print every algorithm, not only the chosen one
};

// Exit code 1 if a choice or the median prediction exceeds its limit, or if a simulated or
// predicted time is below the lower bound.
int measure_grid(const GridOptions& options);

}  // namespace weft::bench
