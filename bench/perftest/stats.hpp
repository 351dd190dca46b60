// SPDX-License-Identifier: BSD-3-Clause
// Statistics of a run's time stamps: latency percentiles and bandwidth, in double. Pure functions,
// tested in tests/bench/bench_stats_test.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weft::bench {

// Everything in microseconds.
struct LatencySummary {
  uint64_t count = 0;
  double min = 0;
  double max = 0;
  double typical = 0;  // median
  double average = 0;
  double deviation = 0;  // standard deviation of the population
  double percentile_99 = 0;
  double percentile_99_9 = 0;
};

// Collects samples of a run of any length in fixed memory: all of them up to `capacity`, beyond
// that a uniform random choice of them for the percentiles; count, mean, deviation and extremes
// stay exact. Adding a sample never allocates.
class LatencyRecorder {
 public:
  explicit LatencyRecorder(size_t capacity);

  void add(uint64_t ticks) noexcept;
  // `scale` converts a sample to the reported unit: 1 / ticks_per_us, half of it for half round
  // trips.
  LatencySummary summary(double scale) const;

 private:
  std::vector<uint64_t> samples_;
  size_t capacity_;
  uint64_t count_ = 0;
  uint64_t min_ = UINT64_MAX;
  uint64_t max_ = 0;
  uint64_t first_ = 0;  // sums are of differences to it, for precision
  double sum_ = 0;
  double squares_ = 0;
  uint64_t random_ = 0x9E3779B97F4A7C15;
};

// The value below or at which a fraction p of the sorted samples lies (nearest rank).
uint64_t percentile(std::span<const uint64_t> sorted, double p);

// The highest rate of any stretch of a run, in messages per tick: the maximum over i <= j of
// (j - i + 1) / (completed[j] - posted[i]). Both ascending and of equal length.
double peak_rate(std::span<const uint64_t> posted, std::span<const uint64_t> completed);

struct BandwidthSummary {
  uint64_t iterations = 0;
  double peak = 0;          // bytes per second; 0 if not measured
  double average = 0;       // bytes per second
  double message_rate = 0;  // messages per second
};

}  // namespace weft::bench
