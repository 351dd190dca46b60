// SPDX-License-Identifier: BSD-3-Clause
// Ratios of measured to predicted call times, by algorithm and size. Each rank measures its own;
// all ranks apply the same maxima at the same call, so they keep choosing the same algorithms.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/collective/plan/algorithm.hpp"

namespace weft::collective {

class ModelCorrection {
 public:
  ModelCorrection();
  // Records that a call took `ratio` times the predicted time.
  void record(size_t algorithm, uint64_t bytes, double ratio);
  // The ratios since the last apply(), in millionths, 0 for none: the last kKept of every algorithm
  // and size in the order of calls, so the table has the same layout on every rank. The maximum
  // over all ranks is the time from the first rank's entry to the last rank's exit.
  std::vector<int64_t>& measured() { return measured_; }
  // Uses the medians of these ratios from now on, and keeps the earlier median where there are
  // none. Not the minimum: a rank that enters last finds all data there and takes almost no time.
  void apply(std::span<const int64_t> all_ranks_ratios);
  // The factor for the predicted time: the applied ratio of this size or of the nearest one; for an
  // algorithm without measurements the mean of its collective's algorithms; otherwise 1.
  double factor(size_t algorithm, uint64_t bytes) const;

 private:
  static constexpr size_t kKept = 31;
  static constexpr size_t kSizes = 32;  // powers of four
  static size_t cell_of(size_t algorithm, uint64_t bytes);

  double collective_mean(Collective collective) const;

  std::vector<int64_t> measured_;  // kKept of each algorithm and size
  std::vector<size_t> calls_;      // per algorithm and size
  std::vector<int64_t> applied_;
  std::vector<double> collective_means_;  // by algorithm
};

}  // namespace weft::collective
