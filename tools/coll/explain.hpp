// SPDX-License-Identifier: BSD-3-Clause
// `weft_coll explain`: the schedule of a call, in figures and step by step, and its proof.
#pragma once

#include "tools/coll/options.hpp"

namespace weft::bench {

struct ExplainOptions {
  uint64_t count = 0;            // 0: four elements for each rank
  std::optional<uint32_t> rank;  // print the steps of this rank
  uint64_t wave = 0;             // Shape::wave: few elements go through in several waves, too
  std::string topology;          // a rank on each chip of that, arranged as they are
};

int explain(const CollOptions& options, const ExplainOptions& explained);

}  // namespace weft::bench
