// SPDX-License-Identifier: BSD-3-Clause
// lib/base/random: ChaCha20 against the published vector, both generators repeat from a seed and
// differ without one, and `below` is uniform (chi-squared over fixed seeds, so the test is
// deterministic).
#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include "lib/base/chacha20.hpp"
#include "lib/base/random.hpp"
#include "tests/support/catch.hpp"

using weft::base::Random;
using weft::base::SecureRandom;

namespace {

// Chi-squared statistic of `draws` numbers in [0, cells).
template <class Draw>
double chi_squared(size_t cells, size_t draws, Draw draw) {
  std::vector<double> count(cells, 0);
  for (size_t i = 0; i < draws; ++i) ++count.at(draw());
  const double expected = static_cast<double>(draws) / static_cast<double>(cells);
  double sum = 0;
  for (const double c : count) sum += (c - expected) * (c - expected) / expected;
  return sum;
}

}  // namespace

TEST_CASE("ChaCha20 gives the block of RFC 8439 2.3.2") {
  const uint32_t state[16] = {0x61707865, 0x3320646E, 0x79622D32, 0x6B206574,
                              0x03020100, 0x07060504, 0x0B0A0908, 0x0F0E0D0C,
                              0x13121110, 0x17161514, 0x1B1A1918, 0x1F1E1D1C,
                              0x00000001, 0x09000000, 0x4A000000, 0x00000000};
  const std::array<uint32_t, 16> expected = {0xE4E7F110, 0x15593BD1, 0x1FDD0F50, 0xC47120A3,
                                             0xC7F4D1C7, 0x0368C033, 0x9AAA2204, 0x4E6CD4C3,
                                             0x466482D2, 0x09AA9F07, 0x05D7C214, 0xA2028BD9,
                                             0xD19C12B5, 0xB94E16DE, 0xE883D0CB, 0x4E3C50A2};
  uint32_t out[16];
  weft::base::chacha20_block(state, out);
  CHECK(std::equal(expected.begin(), expected.end(), out));
}

TEST_CASE("xoshiro256** seeded with 0 gives its known first numbers") {
  // splitmix64(0) = e220a8397b1dcdaf, 6e789e6aa1b965f4, 06c45d188009454f, f88bb8a8724c81ec; the
  // first output is rotl(s1 * 5, 7) * 9.
  Random random(0);
  CHECK(random.next() == 0x99EC5F36CB75F2B4);
  CHECK(random.next() == 0xBF6E1F784956452A);
  CHECK(random.next() == 0x1A5F849D4933E6E0);
}

TEST_CASE("the same seed gives the same numbers, another seed others") {
  Random a(7), b(7), c(8);
  SecureRandom sa(7), sb(7), sc(8);
  int equal_to_other = 0;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t x = a.next();
    const uint64_t y = sa.next64();
    CHECK(x == b.next());
    CHECK(y == sb.next64());
    equal_to_other += x == c.next() || y == sc.next64();
  }
  CHECK(equal_to_other == 0);
}

TEST_CASE("generators seeded by the kernel differ from each other") {
  std::set<uint64_t> seen;
  for (int i = 0; i < 100; ++i) seen.insert(SecureRandom().next64());
  CHECK(seen.size() == 100);
}

TEST_CASE("SecureRandom does not repeat over many blocks, and fills every bit") {
  SecureRandom random(3);
  std::set<uint64_t> seen;
  std::array<int, 64> ones{};
  constexpr int kDraws = 20'000;
  for (int i = 0; i < kDraws; ++i) {
    const uint64_t x = random.next64();
    seen.insert(x);
    for (size_t bit = 0; bit < 64; ++bit) ones[bit] += (x >> bit) & 1;
  }
  CHECK(seen.size() == kDraws);
  // Binomial: sigma = sqrt(20000) / 2 = 71; five sigma either side.
  for (const int n : ones) CHECK((n > kDraws / 2 - 354 && n < kDraws / 2 + 354));
}

TEST_CASE("below is in range and uniform, also for a bound that does not divide 2^64") {
  Random random(11);
  SecureRandom secure(11);
  // 99 degrees of freedom: 148 is the 0.1 % tail, 61 the other one.
  const double a = chi_squared(100, 100'000, [&] { return random.below(100); });
  const double b = chi_squared(100, 100'000, [&] { return secure.below(100); });
  CHECK((a > 61 && a < 148));
  CHECK((b > 61 && b < 148));
  // Three quarters of the range: a modulo would give the lower third twice the weight.
  const uint64_t bound = 3ULL << 62;
  const double c = chi_squared(3, 30'000, [&] { return random.below(bound) >> 62; });
  const double d = chi_squared(3, 30'000, [&] { return secure.below(3U << 30) >> 30; });
  CHECK(c < 14);  // 2 degrees of freedom, 0.1 % tail 13.8
  CHECK(d < 14);
  for (int i = 0; i < 100; ++i) {
    CHECK(random.below(1) == 0);
    CHECK(secure.below(1) == 0);
  }
}

TEST_CASE("chance_ppm follows its probability") {
  Random random(5);
  int hits = 0;
  for (int i = 0; i < 1'000'000; ++i) hits += random.chance_ppm(1000);
  CHECK((hits > 840 && hits < 1160));  // mean 1000, sigma 31.6
  CHECK_FALSE(random.chance_ppm(0));
  CHECK(random.chance_ppm(1'000'000));
}
