// SPDX-License-Identifier: BSD-3-Clause
// A buffer of two pages is free when both have left, whichever is first.
#include "providers/port/af_xdp/in_flight_pages.hpp"
#include "tests/support/catch.hpp"

using weft::port::af_xdp::InFlightPages;

TEST_CASE("a transmit buffer is free when its last umem frame is complete") {
  constexpr uint64_t kPage = 4096, kFirst = 100 * kPage;
  InFlightPages in_flight(kFirst, 2 * kPage, 3);
  for (int round = 0; round < 3; ++round) {
    const uint64_t both = kFirst, one = kFirst + 2 * kPage, backwards = kFirst + 4 * kPage;
    in_flight.send(both, 2);
    in_flight.send(one, 1);
    in_flight.send(backwards, 2);
    CHECK_FALSE(in_flight.complete(both));
    CHECK(in_flight.complete(one));
    CHECK_FALSE(in_flight.complete(backwards + kPage));
    CHECK(in_flight.complete(both + kPage));
    CHECK(in_flight.complete(backwards));
    CHECK(in_flight.buffer_of(both + kPage) == both);
    CHECK(in_flight.buffer_of(backwards) == backwards);
  }
}
