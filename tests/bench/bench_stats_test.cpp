// SPDX-License-Identifier: BSD-3-Clause
// The figures that the measuring programs print, against slow and obvious computations of the same.
// link: perftest
#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "bench/perftest/stats.hpp"
#include "tests/support/catch.hpp"

namespace weft::bench {
namespace {

LatencySummary summary_of(const std::vector<uint64_t>& samples, double scale = 1) {
  LatencyRecorder recorder(samples.size());
  for (const uint64_t s : samples) recorder.add(s);
  return recorder.summary(scale);
}

}  // namespace

TEST_CASE("latency of known samples") {
  std::vector<uint64_t> samples;
  for (uint64_t i = 1; i <= 1000; ++i) samples.push_back(1001 - i);  // 1000 .. 1
  const LatencySummary s = summary_of(samples);
  CHECK(s.count == 1000);
  CHECK(s.min == 1);
  CHECK(s.max == 1000);
  CHECK(s.typical == 500.5);
  CHECK(s.average == Approx(500.5));
  CHECK(s.deviation == Approx(std::sqrt((1000.0 * 1000.0 - 1) / 12)));
  CHECK(s.percentile_99 == 990);
  CHECK(s.percentile_99_9 == 999);
}

TEST_CASE("a deviation below one microsecond is not lost") {
  const LatencySummary s = summary_of({1000, 1200, 1000, 1200}, 0.001);  // 1.0 and 1.2 us
  CHECK(s.deviation == Approx(0.1));
  CHECK(s.average == Approx(1.1));
}

TEST_CASE("large time stamps keep their digits") {
  const uint64_t base = uint64_t{1} << 40;
  const LatencySummary s = summary_of({base, base + 2, base, base + 2});
  CHECK(s.deviation == Approx(1.0));
  CHECK(s.average - static_cast<double>(base) == Approx(1.0));
}

TEST_CASE("one sample and no sample") {
  const LatencySummary one = summary_of({7});
  CHECK(one.min == 7);
  CHECK(one.typical == 7);
  CHECK(one.deviation == 0);
  CHECK(one.percentile_99_9 == 7);
  CHECK(summary_of({}).count == 0);
}

TEST_CASE("percentiles are nearest ranks") {
  std::vector<uint64_t> sorted(100);
  for (size_t i = 0; i < sorted.size(); ++i) sorted[i] = i + 1;
  CHECK(percentile(sorted, 0.99) == 99);
  CHECK(percentile(sorted, 0.999) == 100);
  CHECK(percentile(sorted, 0.5) == 50);
  CHECK(percentile(sorted, 0) == 1);
  CHECK(percentile(sorted, 1) == 100);
  CHECK(percentile({}, 0.5) == 0);
}

TEST_CASE("a run longer than the memory keeps mean and extremes exact, percentiles close") {
  LatencyRecorder recorder(10'000);
  constexpr uint64_t kCount = 500'000;
  for (uint64_t i = 0; i < kCount; ++i) recorder.add(i);
  const LatencySummary s = recorder.summary(1);
  CHECK(s.count == kCount);
  CHECK(s.min == 0);
  CHECK(s.max == kCount - 1);
  CHECK(s.average == Approx((kCount - 1) / 2.0));
  CHECK(s.typical == Approx(kCount / 2.0).epsilon(0.05));
  CHECK(s.percentile_99 == Approx(kCount * 0.99).epsilon(0.01));
}

TEST_CASE("the peak rate is that of the best stretch") {
  const uint64_t seed = 20240601;  // replay: the cases below depend on nothing else
  std::mt19937_64 random(seed);
  for (int round = 0; round < 200; ++round) {
    const size_t n = 1 + random() % 60;
    std::vector<uint64_t> posted;
    std::vector<uint64_t> completed;
    uint64_t now = random() % 1'000'000'000;
    uint64_t done = now;
    for (size_t i = 0; i < n; ++i) {
      now += random() % 20;
      done = std::max(done, now) + 1 + random() % 30;
      posted.push_back(now);
      completed.push_back(done);
    }
    double best = 0;
    for (size_t i = 0; i < n; ++i)
      for (size_t j = i; j < n; ++j)
        best = std::max(
            best, static_cast<double>(j - i + 1) / static_cast<double>(completed[j] - posted[i]));
    INFO("seed " << seed << " round " << round);
    CHECK(peak_rate(posted, completed) == Approx(best));
  }
  CHECK(peak_rate({}, {}) == 0);
}

}  // namespace weft::bench
