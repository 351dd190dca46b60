// SPDX-License-Identifier: BSD-3-Clause
// Numbered events in any order: what counts as come without a gap.
#include "lib/collective/run/sequence_window.hpp"
#include "tests/support/catch.hpp"

namespace weft::collective {
namespace {

TEST_CASE("events count when all before them have come") {
  SequenceWindow events(4);
  CHECK(events.add(2));
  CHECK(events.add(1));
  CHECK(events.count() == 0);
  CHECK(events.add(0));
  CHECK(events.count() == 3);
  for (uint64_t number = 3; number < 100; number += 2) {
    CHECK(events.add(number + 1));
    CHECK(events.add(number));
    CHECK(events.count() == number + 2);
  }
}

TEST_CASE("events that come twice or too early do not count") {
  SequenceWindow events(4);
  CHECK(events.add(1));
  CHECK(!events.add(1));
  CHECK(!events.add(4));
  CHECK(events.add(0));
  CHECK(!events.add(0));
  CHECK(events.add(4));
  CHECK(events.count() == 2);
}

TEST_CASE("half a number says which event is meant, before and after the half overflows") {
  SequenceWindow events(4);
  CHECK(events.number(0) == 0);
  CHECK(events.number(3) == 3);
  CHECK(events.number(0xFFFFFFFF) == ~uint64_t{0});  // before the first: nothing adds it
  CHECK(!events.add(events.number(0xFFFFFFFF)));
}

}  // namespace
}  // namespace weft::collective
