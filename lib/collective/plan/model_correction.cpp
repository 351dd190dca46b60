// SPDX-License-Identifier: BSD-3-Clause
// The table of ratios, its medians and means.
#include "lib/collective/plan/model_correction.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "lib/base/check.hpp"

namespace weft::collective {
namespace {

constexpr double kScale = 1e6;  // table entry of ratio 1

// The median of the ratios that are not 0; 0 if there is none.
int64_t median(std::span<const int64_t> ratios) {
  std::vector<int64_t> some;
  std::copy_if(ratios.begin(), ratios.end(), std::back_inserter(some),
               [](int64_t ratio) { return ratio > 0; });
  if (some.empty()) return 0;
  std::sort(some.begin(), some.end());
  return some[(some.size() - 1) / 2];
}

}  // namespace

ModelCorrection::ModelCorrection()
    : measured_(algorithms().size() * kSizes * kKept),
      calls_(algorithms().size() * kSizes),
      applied_(calls_.size()),
      collective_means_(algorithms().size(), 1) {}

size_t ModelCorrection::cell_of(size_t algorithm, uint64_t bytes) {
  WEFT_DCHECK(algorithm < algorithms().size());
  return algorithm * kSizes + std::min<size_t>(kSizes - 1, std::bit_width(bytes) / 2);
}

void ModelCorrection::record(size_t algorithm, uint64_t bytes, double ratio) {
  if (algorithm >= algorithms().size() || !(ratio > 0)) return;
  const size_t cell = cell_of(algorithm, bytes);
  WEFT_DCHECK(cell < calls_.size());
  measured_[cell * kKept + calls_[cell]++ % kKept] =
      static_cast<int64_t>(std::clamp(ratio * kScale, 1.0, 1e15));
}

void ModelCorrection::apply(std::span<const int64_t> all_ranks_ratios) {
  WEFT_DCHECK(all_ranks_ratios.size() == measured_.size());
  for (size_t i = 0; i < applied_.size() && (i + 1) * kKept <= all_ranks_ratios.size(); ++i)
    if (const int64_t middle = median(all_ranks_ratios.subspan(i * kKept, kKept)); middle > 0)
      applied_[i] = middle;
  std::fill(measured_.begin(), measured_.end(), 0);
  std::fill(calls_.begin(), calls_.end(), 0);
  for (size_t algorithm = 0; algorithm < collective_means_.size(); ++algorithm)
    collective_means_[algorithm] = collective_mean(algorithms()[algorithm].collective);
}

// The geometric mean of a collective's applied ratios.
double ModelCorrection::collective_mean(Collective collective) const {
  double logarithms = 0, found = 0;
  for (size_t i = 0; i < applied_.size(); ++i)
    if (applied_[i] > 0 && algorithms()[i / kSizes].collective == collective)
      logarithms += std::log(static_cast<double>(applied_[i]) / kScale), found += 1;
  return found > 0 ? std::exp(logarithms / found) : 1;
}

double ModelCorrection::factor(size_t algorithm, uint64_t bytes) const {
  const size_t row = algorithm * kSizes, wanted = cell_of(algorithm, bytes) - row;
  for (size_t away = 0; away < kSizes; ++away)
    for (const size_t size : {wanted + away, wanted - away})
      if (size < kSizes && applied_[row + size] > 0)
        return static_cast<double>(applied_[row + size]) / kScale;
  WEFT_DCHECK(collective_means_[algorithm] > 0);
  return collective_means_[algorithm];
}

}  // namespace weft::collective
