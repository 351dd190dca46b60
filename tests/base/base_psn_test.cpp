// SPDX-License-Identifier: BSD-3-Clause
// Circular arithmetic of packet sequence numbers.
#include <cstdint>

#include "tests/support/catch.hpp"
#include "weft/types.hpp"

using weft::Psn;

TEST_CASE("the distance of two PSNs is the shorter one, roce:C-PSN-17") {
  constexpr uint32_t kCircle = 1u << 24, kHalf = kCircle / 2;
  const uint32_t borders[] = {0, kHalf, kCircle - 1, 0x123456};
  const uint32_t steps[] = {0, 1, 2, 255, 65535, kHalf - 2, kHalf - 1};
  for (const uint32_t border : borders)
    for (uint32_t nudge = 0; nudge < 5; ++nudge)
      for (const uint32_t step : steps) {
        const Psn from{(border + nudge + kCircle - 2) % kCircle};
        const Psn to = from + step;
        CHECK(to.value == (from.value + step) % kCircle);
        CHECK(to - from == static_cast<int32_t>(step));
        // Behind it lies 2^23, before it 2^23 - 1.
        CHECK(from - to == -static_cast<int32_t>(step));
        CHECK((from + kHalf) - from == -static_cast<int32_t>(kHalf));
        CHECK((from + (kHalf + 1)) - from == 1 - static_cast<int32_t>(kHalf));
      }
}

TEST_CASE("each distance of the whole circle, from both sides of the wrap, roce:C-PSN-17") {
  constexpr uint32_t kCircle = 1u << 24, kHalf = kCircle / 2;
  for (const Psn from : {Psn{0}, Psn{kHalf}, Psn{kCircle - 1}}) {
    uint32_t wrong = 0;
    for (uint32_t step = 0; step < kCircle; ++step) {
      const int32_t distance = static_cast<int32_t>(step) - (step < kHalf ? 0 : int32_t{kCircle});
      const Psn to = from + step;
      wrong += to - from != distance || to.value != ((from.value + step) & (kCircle - 1));
    }
    CHECK(wrong == 0);
  }
}
