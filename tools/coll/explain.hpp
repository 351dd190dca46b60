// SPDX-License-Identifier: BSD-3-Clause
// `weft_coll explain`: prints the schedule of a call, as figures and step by step, and proves it.
#pragma once

#include "tools/coll/options.hpp"

namespace weft::bench {

struct ExplainOptions {
  uint64_t count = 0;            // elements; 0: four per rank
  std::optional<uint32_t> rank;  // print the steps of this rank
  uint64_t wave = 0;             // Shape::wave
  std::string topology;          // one rank per chip, with its dimensions and racks
  std::string msccl_file;        // write the schedule there, as XML of MSCCL
};

int explain(const CollOptions& options, const ExplainOptions& explained);

}  // namespace weft::bench
