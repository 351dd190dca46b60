// SPDX-License-Identifier: BSD-3-Clause
// A table of ratios.
#include "lib/collective/plan/learned.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace weft::collective {
namespace {

constexpr double kOne = 1e6;  // a ratio of 1 in the table

// Of those that are not 0; or 0.
int64_t median(std::span<const int64_t> ratios) {
  std::vector<int64_t> some;
  std::copy_if(ratios.begin(), ratios.end(), std::back_inserter(some),
               [](int64_t ratio) { return ratio > 0; });
  if (some.empty()) return 0;
  std::sort(some.begin(), some.end());
  return some[(some.size() - 1) / 2];
}

}  // namespace

Learned::Learned()
    : measured_(algorithms().size() * kSizes * kKept),
      calls_(algorithms().size() * kSizes),
      adopted_(calls_.size()),
      means_(algorithms().size(), 1) {}

size_t Learned::at(size_t algorithm, uint64_t bytes) {
  return algorithm * kSizes + std::min<size_t>(kSizes - 1, std::bit_width(bytes) / 2);
}

void Learned::note(size_t algorithm, uint64_t bytes, double ratio) {
  if (algorithm >= algorithms().size() || !(ratio > 0)) return;
  const size_t cell = at(algorithm, bytes);
  measured_[cell * kKept + calls_[cell]++ % kKept] =
      static_cast<int64_t>(std::clamp(ratio * kOne, 1.0, 1e15));
}

void Learned::adopt(std::span<const int64_t> of_all) {
  for (size_t i = 0; i < adopted_.size() && (i + 1) * kKept <= of_all.size(); ++i)
    if (const int64_t middle = median(of_all.subspan(i * kKept, kKept)); middle > 0)
      adopted_[i] = middle;
  std::fill(measured_.begin(), measured_.end(), 0);
  std::fill(calls_.begin(), calls_.end(), 0);
  for (size_t algorithm = 0; algorithm < means_.size(); ++algorithm)
    means_[algorithm] = mean_of(algorithms()[algorithm].collective);
}

// In proportion: the geometric one.
double Learned::mean_of(Collective collective) const {
  double logarithms = 0, found = 0;
  for (size_t i = 0; i < adopted_.size(); ++i)
    if (adopted_[i] > 0 && algorithms()[i / kSizes].collective == collective)
      logarithms += std::log(static_cast<double>(adopted_[i]) / kOne), found += 1;
  return found > 0 ? std::exp(logarithms / found) : 1;
}

double Learned::factor(size_t algorithm, uint64_t bytes) const {
  const size_t row = algorithm * kSizes, wanted = at(algorithm, bytes) - row;
  for (size_t away = 0; away < kSizes; ++away)
    for (const size_t size : {wanted + away, wanted - away})
      if (size < kSizes && adopted_[row + size] > 0)
        return static_cast<double>(adopted_[row + size]) / kOne;
  return means_[algorithm];
}

}  // namespace weft::collective
