// SPDX-License-Identifier: BSD-3-Clause
// The telemetry block: its bytes are where INT.md says, stamping fills it hop by hop, and no prefix
// of a frame is read past its end.
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "lib/base/random.hpp"
#include "lib/wire/int_block.hpp"
#include "tests/support/catch.hpp"

using namespace weft::wire;

namespace {

std::vector<std::byte> empty_block() {
  std::vector<std::byte> bytes(sizeof(IntBlock));
  const IntBlock block;
  std::memcpy(bytes.data(), &block, sizeof block);
  return bytes;
}

const IntBlock& block_of(const std::vector<std::byte>& bytes) {
  const IntBlock* const block = find_int(bytes.data(), static_cast<uint32_t>(bytes.size()));
  REQUIRE(block != nullptr);
  return *block;
}

void stamp(std::vector<std::byte>& bytes, uint16_t hop, const IntRecord& record) {
  stamp_int(bytes.data(), static_cast<uint32_t>(bytes.size()), hop, record);
}

TEST_CASE("a block has exactly these bytes") {
  // The layout is the protocol: a change needs a new version.
  std::vector<std::byte> bytes = empty_block();
  stamp(bytes, 0x0102, {400'000, 0x112233445566, 0xAABBCCDDEEFF, 0x01020304});
  stamp(bytes, 0x1000, {25'000, 1, 2, 3});
  const uint8_t expected[] = {1,    0,    2,    0,    0x11, 0x02, 0, 0,              // header
                              0x00, 0x06, 0x1A, 0x80,                                // 400,000
                              0x11, 0x22, 0x33, 0x44, 0x55, 0x66,                    // time
                              0xAA, 0xBB, 0xCC, 0xDD, 0xEE, 0xFF,                    // sent
                              1,    2,    3,    4,                                   // queue
                              0,    0,    0x61, 0xA8, 0,    0,    0, 0, 0, 1, 0, 0,  // 25,000
                              0,    0,    0,    2,    0,    0,    0, 3};
  REQUIRE(sizeof expected == 8 + 2 * sizeof(IntRecord));
  CHECK(std::memcmp(bytes.data(), expected, sizeof expected) == 0);
  for (size_t i = sizeof expected; i < bytes.size(); ++i) CHECK(bytes[i] == std::byte{0});
  CHECK(kIntUdpPort == 4796);
}

TEST_CASE("the digest is that of the most utilised hop") {
  std::vector<std::byte> bytes = empty_block();
  for (const uint8_t code : {uint8_t{7}, uint8_t{200}, uint8_t{0}, uint8_t{9}})
    stamp_int(bytes.data(), static_cast<uint32_t>(bytes.size()), 1, {1, 2, 3, 4}, code);
  CHECK(bytes[3] == std::byte{200});
  CHECK(block_of(bytes).hops == 4);
}

TEST_CASE("hops beyond the fifth are counted and have no record") {
  std::vector<std::byte> bytes = empty_block();
  bytes.resize(bytes.size() + 16, std::byte{0x5A});  // the frame behind the block
  for (uint32_t hop = 1; hop <= 300; ++hop) {
    stamp(bytes, static_cast<uint16_t>(hop), {hop, hop * 10, hop * 100, hop * 1000});
    const IntBlock& block = block_of(bytes);
    CHECK(block.hops == std::min(hop, 255u));
    CHECK(block.count() == std::min(hop, 5u));
  }
  const IntBlock& block = block_of(bytes);
  for (uint32_t i = 0; i < kIntHops; ++i) {
    CHECK(block.records[i].rate_mbps == i + 1);
    CHECK(block.records[i].queue_bytes == (i + 1) * 1000);
  }
  for (size_t i = sizeof(IntBlock); i < bytes.size(); ++i) CHECK(bytes[i] == std::byte{0x5A});
}

TEST_CASE("an echo, another version and a short frame pass unchanged") {
  const IntRecord record{1, 2, 3, 4};
  std::vector<std::byte> echo = empty_block();
  echo[1] = std::byte{kIntEcho};
  std::vector<std::byte> newer = empty_block();
  newer[0] = std::byte{2};
  for (std::vector<std::byte> bytes : {echo, newer}) {
    const std::vector<std::byte> before = bytes;
    stamp(bytes, 9, record);
    CHECK(bytes == before);
  }
  CHECK(find_int(newer.data(), sizeof(IntBlock)) == nullptr);
  for (uint32_t length = 0; length < sizeof(IntBlock); ++length) {
    const std::unique_ptr<std::byte[]> exact(new std::byte[length]);  // for AddressSanitizer
    if (length != 0) std::memset(exact.get(), 1, length);
    CHECK(find_int(exact.get(), length) == nullptr);
    stamp_int(exact.get(), length, 9, record);
  }
}

TEST_CASE("random records are read as they were written") {
  const char* const text = std::getenv("WEFT_TEST_SEED");
  const uint64_t seed = text != nullptr ? std::strtoull(text, nullptr, 0) : 20261121;
  INFO("replay: WEFT_TEST_SEED=" << seed << " wire_int_test");
  weft::base::Random random(seed);
  for (int round = 0; round < 1000; ++round) {
    std::vector<std::byte> bytes = empty_block();
    const auto hops = static_cast<uint32_t>(random.next() % (kIntHops + 1));
    uint32_t rate[kIntHops], queue[kIntHops];
    uint64_t time[kIntHops], sent[kIntHops];
    uint16_t path = 0;
    for (uint32_t i = 0; i < hops; ++i) {
      rate[i] = static_cast<uint32_t>(random.next());
      queue[i] = static_cast<uint32_t>(random.next());
      time[i] = random.next() >> 16;
      sent[i] = random.next() >> 16;
      const auto hop = static_cast<uint16_t>(random.next());
      path ^= hop;
      stamp(bytes, hop, {rate[i], time[i], sent[i], queue[i]});
    }
    const IntBlock& block = block_of(bytes);
    REQUIRE(block.count() == hops);
    REQUIRE(block.path == path);
    for (uint32_t i = 0; i < hops; ++i) {
      const IntRecord& r = block.records[i];
      REQUIRE(r.rate_mbps == rate[i]);
      REQUIRE(r.queue_bytes == queue[i]);
      REQUIRE(r.time_ns == time[i]);
      REQUIRE(r.sent_bytes == sent[i]);
    }
  }
}

}  // namespace
