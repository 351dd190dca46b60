// SPDX-License-Identifier: BSD-3-Clause
// `weft_coll sim`: the predicted time of an operation on a given network, and the lower bound.
#pragma once

#include "tools/coll/options.hpp"

namespace weft::bench {

struct SimulateOptions {
  std::vector<std::string> topologies;
  std::vector<std::string> sizes = {"1MiB", "16MiB", "256MiB", "1GiB"};
  std::vector<std::string> dead;  // failed lanes, in the syntax of parse_dead_lanes()
  bool best_only = false;
  bool packets = false;   // packet model; otherwise flow model
  std::string plot_file;  // SVG: time over size of every algorithm, and the bound
};

// Exit code 1 if a prediction is below its lower bound: then the model is wrong.
int simulate(const CollOptions& options, const SimulateOptions& simulated);

}  // namespace weft::bench
