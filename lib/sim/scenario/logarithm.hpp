// SPDX-License-Identifier: BSD-3-Clause
// A natural logarithm with the same bits from every compiler and library, for random draws: libm's
// last bit is not promised, and one bit moves an arrival and with it a whole run.
#pragma once

#include <bit>
#include <cstdint>

namespace weft::sim {

// ln(x) of a normal, positive x, to about 15 digits: x = m x 2^e with m in [0.75, 1.5), and
// ln(m) = 2 atanh((m - 1) / (m + 1)) as a series.
constexpr double natural_log(double x) noexcept {
  const auto bits = std::bit_cast<uint64_t>(x);
  auto exponent = static_cast<int>(bits >> 52) - 1023;
  auto m = std::bit_cast<double>((bits & 0x000FFFFFFFFFFFFF) | 0x3FF0000000000000);
  if (m >= 1.5) {
    m /= 2;
    ++exponent;
  }
  const double z = (m - 1) / (m + 1);
  const double z2 = z * z;
  double sum = 0;
  for (int k = 25; k >= 1; k -= 2) sum = sum * z2 + 1.0 / k;
  return 2 * z * sum + exponent * 0.693147180559945309417;
}

}  // namespace weft::sim
