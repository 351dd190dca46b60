// SPDX-License-Identifier: BSD-3-Clause
// The choice by size.
#include "lib/collective/plan/choose.hpp"
#include "tests/support/catch.hpp"

namespace weft::collective {
namespace {

std::string_view all_reduce_of(uint32_t ranks, uint64_t bytes, bool exact = true,
                               Numerics numerics = Numerics::run) {
  return choose(Collective::all_reduce, ranks, bytes, exact, numerics).name;
}

TEST_CASE("an all_reduce of medium size uses halving_doubling where it sends no more bytes") {
  CHECK(all_reduce_of(4, 8 * 1024) == "doubling");
  CHECK(all_reduce_of(4, 8 * 1024 + 4) == "halving_doubling");
  CHECK(all_reduce_of(8, 128 * 1024) == "halving_doubling");
  CHECK(all_reduce_of(4, 128 * 1024 + 4) == "direct");
  CHECK(all_reduce_of(3, 16 * 1024) == "doubling");
  CHECK(all_reduce_of(4, 16 * 1024, false) == "doubling");
  CHECK(all_reduce_of(2, 64 * 1024) == "direct");
  CHECK(all_reduce_of(3, 64 * 1024) == "direct");
  CHECK(all_reduce_of(6, 64 * 1024) == "direct");
  CHECK(all_reduce_of(4, 64 * 1024, false) == "direct");
  CHECK(all_reduce_of(4, 64 * 1024, true, Numerics::any) == "direct");
}

}  // namespace
}  // namespace weft::collective
