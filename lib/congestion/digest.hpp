// SPDX-License-Identifier: BSD-3-Clause
// PINT's code of a utilisation in one byte: the logarithm to base 1.05 of ceil(512 u), at least 1,
// rounded up or down at random in proportion, so that the mean is right (facts 6.1 d). The switch
// encodes, the sender decodes.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

namespace weft::congestion {

inline constexpr double kDigestBase = 1.05;
inline constexpr double kDigestScale = 512;

// Powers of the base, by multiplication: the same bits everywhere.
inline constexpr std::array<double, 257> kDigestPowers = [] {
  std::array<double, 257> powers{};
  powers[0] = 1;
  for (size_t i = 1; i < powers.size(); ++i) powers[i] = powers[i - 1] * kDigestBase;
  return powers;
}();

inline double decode_digest(uint8_t code) noexcept { return kDigestPowers[code] / kDigestScale; }

// `draw` is uniform in [0, 1).
inline uint8_t encode_digest(double utilisation, double draw) noexcept {
  const double value = std::ceil(utilisation * kDigestScale);
  if (!(value > 1)) return 1;
  if (value >= kDigestPowers[255]) return 255;
  size_t low = 0;  // the last power that is not above the value
  for (size_t step = 128; step > 0; step /= 2)
    if (low + step < 256 && kDigestPowers[low + step] <= value) low += step;
  // Between two powers the logarithm is nearly a line: log(1 + x) / log(1.05) for x below 0.05, to
  // three terms, wrong by less than 1e-5.
  const double x = value / kDigestPowers[low] - 1;
  constexpr double kInverseLog = 20.495934314287850;  // 1 / ln 1.05
  const double fraction = (x - x * x / 2 + x * x * x / 3) * kInverseLog;
  const size_t code = low + (draw < fraction ? 1 : 0);
  return static_cast<uint8_t>(code < 1 ? 1 : code > 255 ? 255 : code);
}

}  // namespace weft::congestion
