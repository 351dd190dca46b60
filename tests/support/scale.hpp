// SPDX-License-Identifier: BSD-3-Clause
// How much random work the tests do: WEFT_TEST_SCALE multiplies every count of rounds. It is 1 in
// ordinary runs; ./dev test says 0.1 under sanitizers. Never less than one round.
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
