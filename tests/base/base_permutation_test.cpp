// SPDX-License-Identifier: BSD-3-Clause
// Every number once, for bounds of each size, in an unpredictable order.
#include <cmath>
#include <vector>

#include "lib/base/permutation.hpp"
#include "tests/support/catch.hpp"

using weft::base::Permutation;
using weft::base::SecureRandom;

TEST_CASE("a permutation has each number below its bound once") {
  SecureRandom random(1);
  for (const uint32_t count : {1u, 2u, 3u, 7u, 16u, 17u, 255u, 256u, 1000u, 4097u}) {
    const Permutation order(count, random);
    std::vector<bool> seen(count);
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t n = order(i);
      REQUIRE(n < count);
      REQUIRE_FALSE(seen[n]);
      seen[n] = true;
    }
  }
}

TEST_CASE("threat:A03 successors are spread evenly and a different key gives a different order") {
  SecureRandom random(2);
  constexpr uint32_t kCount = 0xFFFFE0, kDraws = 1u << 16, kBuckets = 256;
  const Permutation order(kCount, random), other(kCount, random);
  std::vector<uint32_t> places(kBuckets), steps(kBuckets);
  uint32_t neighbours = 0, equal = 0;
  for (uint32_t i = 0; i < kDraws; ++i) {
    const uint32_t n = order(i), next = order(i + 1);
    const uint32_t step = (next + kCount - n) % kCount;
    ++places[uint64_t{n} * kBuckets / kCount];
    ++steps[uint64_t{step} * kBuckets / kCount];
    neighbours += step == 1;
    equal += n == other(i);
  }
  // Chi-square of 255 degrees of freedom: 330.5 has p = 0.001.
  for (const std::vector<uint32_t>& buckets : {places, steps}) {
    double sum = 0;
    for (const uint32_t seen : buckets) sum += std::pow(seen - double{kDraws} / kBuckets, 2);
    CHECK(sum / (double{kDraws} / kBuckets) < 330.5);
  }
  CHECK(neighbours <= 2);
  CHECK(equal <= 2);
}
