// SPDX-License-Identifier: BSD-3-Clause
// A buffer of two pages is free when both have left, whichever is first.
#include "providers/port/af_xdp/in_flight_pages.hpp"
#include "tests/support/catch.hpp"

using weft::port::af_xdp::InFlightPages;

TEST_CASE("a transmit buffer is free when its last umem frame is complete") {
  constexpr uint64_t kPage = 4096, kFirst = 100 * kPage;
  InFlightPages under_way(kFirst, 2 * kPage, 3);
  for (int round = 0; round < 3; ++round) {
    const uint64_t both = kFirst, one = kFirst + 2 * kPage, backwards = kFirst + 4 * kPage;
    under_way.send(both, 2);
    under_way.send(one, 1);
    under_way.send(backwards, 2);
    CHECK_FALSE(under_way.complete(both));
    CHECK(under_way.complete(one));
    CHECK_FALSE(under_way.complete(backwards + kPage));
    CHECK(under_way.complete(both + kPage));
    CHECK(under_way.complete(backwards));
    CHECK(under_way.buffer_of(both + kPage) == both);
    CHECK(under_way.buffer_of(backwards) == backwards);
  }
}
