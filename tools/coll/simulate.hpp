// SPDX-License-Identifier: BSD-3-Clause
// `weft_coll sim`: what an operation takes on a network that is not here, beside what no schedule
// can beat.
#pragma once

#include "tools/coll/options.hpp"

namespace weft::bench {

struct SimulateOptions {
  std::vector<std::string> topologies;
  std::vector<std::string> sizes = {"1MiB", "16MiB", "256MiB", "1GiB"};
  std::vector<std::string> dead;  // lanes, as parse_dead_lanes() takes them
  bool best_only = false;
  bool packets = false;   // packet by packet, else as flows
  std::string plot_file;  // SVG: time by size of every algorithm, and the bound
};

// Exit code 1 if a prediction beats a bound: then the model is wrong.
int simulate(const CollOptions& options, const SimulateOptions& simulated);

}  // namespace weft::bench
