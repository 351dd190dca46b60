// SPDX-License-Identifier: BSD-3-Clause
// Measures every size out of place and in place. Collective; rank 0 prints.
#pragma once

#include "tools/coll/options.hpp"
#include "tools/coll/placement.hpp"

namespace weft::bench {

// Times are the maximum over all ranks, per call.
struct CollFigure {
  double average_us = 0, p50_us = 0, p99_us = 0;
  double predicted_us = 0;                // 0: no prediction
  double cpu_us = 0;                      // mean processor time of a rank per call, all threads
  uint64_t wrong = 0;                     // wrong elements on all ranks
  std::optional<double> background_gbps;  // of the background calls, in bytes of their buffer
  std::string algorithm;
};

struct CollRow {
  uint64_t bytes = 0;  // of the larger buffer
  uint64_t count = 0;
  CollFigure out_of_place, in_place;
};

// Exit code: 0 success, 1 wrong data or an error, which has been printed.
int measure_collective(const CollOptions& options, const Placement& placement);

// Both in table.cpp.
void print_coll_head(const CollOptions& options, const Placement& placement,
                     const std::string& device);
void print_coll_row(const CollOptions& options, uint32_t ranks, const CollRow& row);
void print_coll_foot(const CollOptions& options, uint32_t ranks, const std::vector<CollRow>& rows);
Result<void> write_coll_json(const CollOptions& options, uint32_t ranks,
                             const std::vector<CollRow>& rows);

}  // namespace weft::bench
