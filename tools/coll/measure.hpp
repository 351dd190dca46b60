// SPDX-License-Identifier: BSD-3-Clause
// The measurement of weft_coll: every size, out of place and in place, on one rank. All ranks call
// it; rank 0 prints.
#pragma once

#include "tools/coll/options.hpp"
#include "tools/coll/placement.hpp"

namespace weft::bench {

// Times are those of the slowest rank in each call.
struct CollFigure {
  double average_us = 0, p50_us = 0, p99_us = 0;
  double predicted_us = 0;  // zero: by no model
  double cpu_us = 0;        // processor time of a rank for one call, all its threads; the mean
  uint64_t wrong = 0;       // elements, of all ranks
  std::optional<double> beside_gbps;  // what the bulk calls beside them did; bytes of their buffer
  std::string algorithm;
};

struct CollRow {
  uint64_t bytes = 0;  // of the larger buffer
  uint64_t count = 0;
  CollFigure out_of_place, in_place;
};

// Exit code: 0 measured and right, 1 wrong data or an error, which was printed.
int measure_collective(const CollOptions& options, const Placement& placement);

// Both in table.cpp.
void print_coll_head(const CollOptions& options, const Placement& placement,
                     const std::string& device);
void print_coll_row(const CollOptions& options, uint32_t ranks, const CollRow& row);
void print_coll_foot(const CollOptions& options, uint32_t ranks, const std::vector<CollRow>& rows);
Result<void> write_coll_json(const CollOptions& options, uint32_t ranks,
                             const std::vector<CollRow>& rows);

}  // namespace weft::bench
