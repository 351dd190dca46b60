// SPDX-License-Identifier: BSD-3-Clause
// Percentiles, deviation and peak rate (stats.hpp).
#include "bench/perftest/stats.hpp"

#include <algorithm>
#include <cmath>

#include "bench/perftest/clock.hpp"

namespace weft::bench {

double ticks_per_us() {
  static const double measured = [] {
    const uint64_t ns_start = monotonic_ns();
    const Ticks start = ticks();
    while (monotonic_ns() - ns_start < 20'000'000) {
    }
    const Ticks end = ticks();
    const uint64_t ns_end = monotonic_ns();
    return static_cast<double>(end - start) * 1000.0 / static_cast<double>(ns_end - ns_start);
  }();
  return measured;
}

LatencyRecorder::LatencyRecorder(size_t capacity) : capacity_(std::max<size_t>(capacity, 1)) {
  samples_.reserve(capacity_);
}

void LatencyRecorder::add(uint64_t ticks) noexcept {
  if (count_ == 0) first_ = ticks;
  ++count_;
  min_ = std::min(min_, ticks);
  max_ = std::max(max_, ticks);
  const double difference = static_cast<double>(static_cast<int64_t>(ticks - first_));
  sum_ += difference;
  squares_ += difference * difference;
  if (samples_.size() < capacity_) {
    samples_.push_back(ticks);
    return;
  }
  random_ ^= random_ << 13;  // xorshift64
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  const uint64_t slot = random_ % count_;
  if (slot < capacity_) samples_[slot] = ticks;
}

LatencySummary LatencyRecorder::summary(double scale) const {
  LatencySummary s;
  s.count = count_;
  if (count_ == 0) return s;
  std::vector<uint64_t> sorted = samples_;
  std::sort(sorted.begin(), sorted.end());
  const double n = static_cast<double>(count_);
  const double mean_difference = sum_ / n;
  const double variance = squares_ / n - mean_difference * mean_difference;
  const size_t middle = sorted.size() / 2;
  double median = static_cast<double>(sorted[middle]);
  if (sorted.size() % 2 == 0) median = (median + static_cast<double>(sorted[middle - 1])) / 2;
  s.min = static_cast<double>(min_) * scale;
  s.max = static_cast<double>(max_) * scale;
  s.typical = median * scale;
  s.average = (static_cast<double>(first_) + mean_difference) * scale;
  s.deviation = std::sqrt(std::max(variance, 0.0)) * scale;
  s.percentile_99 = static_cast<double>(percentile(sorted, 0.99)) * scale;
  s.percentile_99_9 = static_cast<double>(percentile(sorted, 0.999)) * scale;
  return s;
}

uint64_t percentile(std::span<const uint64_t> sorted, double p) {
  if (sorted.empty()) return 0;
  // The small subtraction keeps 0.99 * 100 = 99.00000000000001 at rank 99.
  const double rank = std::ceil(p * static_cast<double>(sorted.size()) - 1e-6);
  const size_t index = rank < 1 ? 0 : static_cast<size_t>(rank) - 1;
  return sorted[std::min(index, sorted.size() - 1)];
}

// Dinkelbach's method: for a rate r, find the stretch that exceeds r by most messages; its own rate
// is the next r. It ends at the maximum after a few linear passes, where trying all pairs would be
// quadratic.
double peak_rate(std::span<const uint64_t> posted, std::span<const uint64_t> completed) {
  const size_t n = std::min(posted.size(), completed.size());
  if (n == 0) return 0;
  const auto span_of = [&](size_t i, size_t j) {
    return static_cast<double>(std::max<uint64_t>(completed[j] - posted[i], 1));
  };
  double rate = static_cast<double>(n) / span_of(0, n - 1);
  for (int pass = 0; pass < 64; ++pass) {
    size_t best_start = 0;
    size_t start = 0;
    size_t best_end = 0;
    double lowest = 0;
    double best = -1e300;
    for (size_t k = 0; k < n; ++k) {
      const double posted_at = static_cast<double>(posted[k] - posted[0]);
      const double completed_at = static_cast<double>(completed[k] - posted[0]);
      const double at_start = static_cast<double>(k) - rate * posted_at;
      if (k == 0 || at_start < lowest) {
        lowest = at_start;
        start = k;
      }
      const double gain = static_cast<double>(k + 1) - rate * completed_at - lowest;
      if (gain > best) {
        best = gain;
        best_start = start;
        best_end = k;
      }
    }
    const double next =
        static_cast<double>(best_end - best_start + 1) / span_of(best_start, best_end);
    if (next <= rate * (1 + 1e-12)) break;
    rate = next;
  }
  return rate;
}

}  // namespace weft::bench
