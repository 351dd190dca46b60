// SPDX-License-Identifier: BSD-3-Clause
// What calls took against what the model predicted, by algorithm and size: measured on each rank,
// and adopted by all ranks at once, so that all go on to choose the same.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/collective/algorithm.hpp"

namespace weft::collective {

class Learned {
 public:
  Learned();
  // A call took `ratio` times the model's time. The least counts: the others waited for somebody.
  void note(size_t algorithm, uint64_t bytes, double ratio);
  // The least ratios since the last adopt(), in millionths, 0 where there is none: of as many
  // entries on every rank, so that the largest of all ranks can be found.
  std::vector<int64_t>& measured() { return measured_; }
  // These count from now on; where there are none, those from before.
  void adopt(std::span<const int64_t> of_all);
  // What to multiply the model's time with: as adopted for this size, or for the nearest; of an
  // algorithm that was never measured, the mean of its collective's others; or 1.
  double factor(size_t algorithm, uint64_t bytes) const;

 private:
  static constexpr size_t kSizes = 32;  // each four times the one before
  static size_t at(size_t algorithm, uint64_t bytes);

  double mean_of(Collective collective) const;

  std::vector<int64_t> measured_, adopted_;
  std::vector<double> means_;  // by algorithm
};

}  // namespace weft::collective
