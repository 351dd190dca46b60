// SPDX-License-Identifier: BSD-3-Clause
// lib/message/wire: what is written is read back, and random bytes never pass as what they are not.
#include <cstdlib>

#include "lib/base/random.hpp"
#include "lib/message/wire.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/scale.hpp"

using namespace weft;
using namespace weft::message;

TEST_CASE("headers are read back as they were written") {
  std::array<std::byte, kMaxHeader> bytes;
  const Header announce{.kind = Kind::announce,
                        .tagged = true,
                        .has_data = true,
                        .credits = 513,
                        .transfer = 0x01020304,
                        .tag = 0x1122334455667788,
                        .data = 99,
                        .length = 30,
                        .piece_count = 2,
                        .pieces = {{{0x1000, 10, {7}}, {0x2000, 20, {8}}}}};
  const size_t size = write_header(announce, bytes.data());
  CHECK(size == kHeaderSize + 8 + 2 * kPieceSize);
  const auto read = read_header({bytes.data(), size});
  REQUIRE(read);
  CHECK(read->kind == Kind::announce);
  CHECK(read->tagged);
  CHECK(read->has_data);
  CHECK(read->credits == 513);
  CHECK(read->transfer == 0x01020304);
  CHECK(read->tag == 0x1122334455667788);
  CHECK(read->data == 99);
  CHECK(read->length == 30);
  REQUIRE(read->piece_count == 2);
  CHECK(read->pieces[1].address == 0x2000);
  CHECK(read->pieces[1].key.value == 8);
  CHECK(bytes[2] == std::byte{2});  // big endian
  CHECK(bytes[8] == std::byte{0x11});
  CHECK(!read_header({bytes.data(), size - 1}));
  CHECK(!read_header({bytes.data(), kHeaderSize}));
}

TEST_CASE("pieces that do not add up to the length are refused") {
  std::array<std::byte, kMaxHeader> bytes;
  Header header{.kind = Kind::announce, .length = 10, .piece_count = 1};
  for (const uint64_t length : {uint64_t{0}, uint64_t{9}, uint64_t{11}, UINT64_MAX}) {
    header.pieces[0].length = length;
    CHECK(!read_header({bytes.data(), write_header(header, bytes.data())}));
  }
  header.piece_count = 2;  // a sum that wraps
  header.pieces[0].length = UINT64_MAX;
  header.pieces[1].length = 11;
  CHECK(!read_header({bytes.data(), write_header(header, bytes.data())}));
}

TEST_CASE("of random bytes, what is read obeys the rules of the wire") {
  const char* text = std::getenv("WEFT_TEST_SEED");
  const uint64_t seed = text ? std::strtoull(text, nullptr, 0) : base::SecureRandom().next64();
  UNSCOPED_INFO("replay: WEFT_TEST_SEED=" << seed);
  base::Random random(seed);
  std::array<std::byte, kMaxHeader + 8> bytes;
  for (uint64_t i = 0; i < weft::test::scaled(200'000); ++i) {
    const size_t size = random.below(bytes.size() + 1);
    for (size_t at = 0; at < size; ++at) bytes[at] = static_cast<std::byte>(random.below(256));
    if (size > 1) bytes[0] = static_cast<std::byte>(random.below(8));
    if (size > 1) bytes[1] = static_cast<std::byte>(random.below(9));
    for (size_t at = kHeaderSize; at < size; ++at)
      if (random.below(4) != 0) bytes[at] = std::byte{0};
    const auto header = read_header({bytes.data(), size});
    if (!header) continue;
    REQUIRE(size >= kHeaderSize);
    uint64_t sum = 0;
    for (uint32_t piece = 0; piece < header->piece_count; ++piece)
      sum += header->pieces[piece].length;
    REQUIRE(header->piece_count <= kMaxPieces);
    if (header->kind == Kind::announce) REQUIRE(sum == header->length);
  }
}
