// SPDX-License-Identifier: BSD-3-Clause
// A result as it was written: the folder of --out, with one folder per seed if there are several.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "weft/result.hpp"

namespace weft::bench {

// Figures by name, as summary.json has them: numbers, "slowdown.all.p99", "jobs.dp.median_step_ns".
using Figures = std::map<std::string, double>;

struct SavedFlow {
  uint32_t src = 0, dst = 0;
  uint64_t bytes = 0;
  double fct_ns = -1;  // -1: unfinished
};
struct SavedLink {
  double utilisation = 0, sent_bytes = 0, most_queue_bytes = 0, paused_ns = 0;
};
// One controller of one seed.
struct SavedRun {
  Figures figures;
  std::string digest;
  std::vector<SavedFlow> flows;
  std::map<std::pair<uint32_t, uint32_t>, SavedLink> links;  // by nodes
};
// By label of the controller, by seed.
using SavedResult = std::map<std::string, std::map<uint64_t, SavedRun>>;

// Errors name the file.
Result<SavedResult> read_result(const std::string& folder);

}  // namespace weft::bench
