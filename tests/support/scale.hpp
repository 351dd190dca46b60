// SPDX-License-Identifier: BSD-3-Clause
// The amount of random work of tests: WEFT_TEST_SCALE multiplies every number of rounds (at least
// one). 1 by default; ./dev test sets 0.1 for sanitizers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace weft::test {

inline double test_scale() {
  const char* const text = std::getenv("WEFT_TEST_SCALE");
  const double factor = text != nullptr ? std::strtod(text, nullptr) : 1.0;
  return factor > 0 ? factor : 1.0;
}

// `count` times the scale, at least 1.
inline uint64_t scaled(uint64_t count) {
  return std::max<uint64_t>(1, static_cast<uint64_t>(static_cast<double>(count) * test_scale()));
}

}  // namespace weft::test
