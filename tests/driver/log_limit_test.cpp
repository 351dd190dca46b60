// SPDX-License-Identifier: BSD-3-Clause
// What packets can make a process write, on virtual time.
#include "lib/driver/log_limit.hpp"

#include <vector>

#include "tests/support/catch.hpp"

namespace weft::driver {

TEST_CASE("a million incidents a second cause ten lines in any second, threat:A35") {
  LogLimit limit;
  std::vector<Instant> lines;
  Instant now;
  for (int i = 0; i < 5'000'000; ++i, now = now + Duration::from_us(1))
    if (limit.take(now)) lines.push_back(now);
  CHECK(lines.size() == 5 * LogLimit::kLines);
  for (size_t i = LogLimit::kLines; i < lines.size(); ++i)
    CHECK(lines[i] - lines[i - LogLimit::kLines] >= LogLimit::kPeriod);
}

TEST_CASE("incidents that are rare are all written") {
  LogLimit limit;
  Instant now;
  for (int i = 0; i < 1000; ++i, now = now + Duration::from_ms(100)) CHECK(limit.take(now));
}

}  // namespace weft::driver
