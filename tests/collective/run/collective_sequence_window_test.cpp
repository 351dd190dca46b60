// SPDX-License-Identifier: BSD-3-Clause
// Sequence numbers that arrive in any order: how many are contiguous.
#include "lib/collective/run/sequence_window.hpp"
#include "tests/support/catch.hpp"

namespace weft::collective {
namespace {

TEST_CASE("numbers count when all before them have arrived") {
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

TEST_CASE("duplicates and numbers beyond the window do not count") {
  SequenceWindow events(4);
  CHECK(events.add(1));
  CHECK(!events.add(1));
  CHECK(!events.add(4));
  CHECK(events.add(0));
  CHECK(!events.add(0));
  CHECK(events.add(4));
  CHECK(events.count() == 2);
}

TEST_CASE("the low 32 bits identify the nearest number, also across their overflow") {
  SequenceWindow events(4);
  CHECK(events.number(0) == 0);
  CHECK(events.number(3) == 3);
  CHECK(events.number(0xFFFFFFFF) == ~uint64_t{0});  // before the first: add() refuses it
  CHECK(!events.add(events.number(0xFFFFFFFF)));
}

}  // namespace
}  // namespace weft::collective
