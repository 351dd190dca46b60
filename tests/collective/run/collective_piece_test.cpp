// SPDX-License-Identifier: BSD-3-Clause
// Compressed headers: expansion restores the header, and headers that differ in more are not
// compressed.
#include <random>

#include "lib/collective/run/piece.hpp"
#include "tests/support/catch.hpp"

namespace weft::collective {
namespace {

PieceHeader usual() {
  const Call call{.sequence = 7, .count = 3, .collective = Collective::all_reduce};
  return {.call = call, .consumed = 100, .bytes = 12, .pieces = 2};
}

TEST_CASE(
    "the next piece of a call, and the first of the repeated call, have a compressed header") {
  PieceHeader piece = usual();
  CHECK(compress(usual(), piece));
  ++piece.call.sequence;
  piece.consumed += 16;
  piece.bytes = 5;  // the completion has it
  CHECK(compress(usual(), piece));
}

TEST_CASE("a header that differs in anything else is not compressed") {
  const auto change = GENERATE(range(0, 11));
  PieceHeader piece = usual();
  if (change == 0) ++piece.call.count;
  if (change == 1) piece.call.blocks = 1;
  if (change == 2) piece.call.root = 1;
  if (change == 3) piece.call.collective = Collective::reduce;
  if (change == 4) piece.call.type = DataType::fp16;
  if (change == 5) piece.call.op = ReduceOp::max;
  if (change == 6) piece.call.algorithm = 1;
  if (change == 7) piece.call.traffic_class = 3;
  if (change == 8) ++piece.pieces;
  if (change == 9) piece.placed = 1;
  if (change == 10) --piece.call.sequence;  // an exchange after a collective
  CAPTURE(change);
  CHECK(!compress(usual(), piece));
}

TEST_CASE("the sequence number may advance by at most what the immediate data hold") {
  PieceHeader piece = usual();
  piece.call.sequence += kMaxSequenceDelta;
  CHECK(compress(usual(), piece));
  ++piece.call.sequence;
  CHECK(!compress(usual(), piece));
}

TEST_CASE("expansion restores compressed headers for numbers of any size") {
  const uint64_t seed = 20261123;
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 10'000; ++i) {
    PieceHeader before = usual();
    before.call.sequence = random() >> random() % 64;
    PieceHeader piece = before;
    piece.call.sequence += random() % (kMaxSequenceDelta + 1);
    piece.bytes = static_cast<uint32_t>(random());
    const uint64_t known = random() >> random() % 64;
    piece.consumed = known + random() % 1025;  // at most a ring
    const std::optional<uint32_t> immediate = compress(before, piece);
    REQUIRE(immediate);
    CHECK((*immediate & kCompressed) != 0);
    PieceHeader found = before;
    expand(found, *immediate, piece.bytes, known);
    CHECK(found.call == piece.call);
    CHECK(found.consumed == piece.consumed);
    CHECK(found.bytes == piece.bytes);
    CHECK(found.pieces == piece.pieces);
  }
}

}  // namespace
}  // namespace weft::collective
