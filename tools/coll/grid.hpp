// SPDX-License-Identifier: BSD-3-Clause
// `weft_coll grid`: how good choices and predictions are, over operations, sizes and networks.
// Every algorithm that fits is simulated packet by packet; beside that stand the algorithm that the
// selector chooses, what it predicts, and what no schedule can beat.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft::bench {

struct GridOptions {
  std::vector<std::string> networks;    // as read_topology() takes them, or switch:CHIPS
  std::vector<std::string> operations;  // empty: all that have a bound
  std::vector<std::string> sizes = {"4KiB", "64KiB", "1MiB", "16MiB", "256MiB"};
  double most_over_best = 1.1;  // that a chosen algorithm may take
  double most_error = 0.15;     // that the median prediction may be wrong by
  bool all = false;             // print every algorithm, not only what was chosen
};

// Exit code 1 if a choice or the median prediction is worse than the options say, or if any time,
// simulated or predicted, beats its bound.
int measure_grid(const GridOptions& options);

}  // namespace weft::bench
