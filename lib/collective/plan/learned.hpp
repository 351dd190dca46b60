// SPDX-License-Identifier: BSD-3-Clause
// What calls took against what the model predicted, by algorithm and size: measured on each rank,
// and adopted by all ranks at once, so that all go on to choose the same.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/collective/plan/algorithm.hpp"

namespace weft::collective {

class Learned {
 public:
  Learned();
  // A call took `ratio` times the model's time.
  void note(size_t algorithm, uint64_t bytes, double ratio);
  // The ratios since the last adopt(), in millionths, 0 where there is none: the last kKept of
  // every algorithm and size, so as many entries on every rank, in the order of the calls. The
  // largest of all ranks is what a call took from the first rank that came to the last that was
  // done.
  std::vector<int64_t>& measured() { return measured_; }
  // The medians of these count from now on; where there are none, those from before. Not the least:
  // ranks that come last find all there, and take next to nothing.
  void adopt(std::span<const int64_t> of_all);
  // What to multiply the model's time with: as adopted for this size, or for the nearest; of an
  // algorithm that was never measured, the mean of its collective's others; or 1.
  double factor(size_t algorithm, uint64_t bytes) const;

 private:
  static constexpr size_t kKept = 31;
  static constexpr size_t kSizes = 32;  // each four times the one before
  static size_t at(size_t algorithm, uint64_t bytes);

  double mean_of(Collective collective) const;

  std::vector<int64_t> measured_;  // kKept of each algorithm and size
  std::vector<size_t> calls_;      // of each
  std::vector<int64_t> adopted_;
  std::vector<double> means_;  // by algorithm
};

}  // namespace weft::collective
