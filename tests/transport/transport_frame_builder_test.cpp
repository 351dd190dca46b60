// SPDX-License-Identifier: BSD-3-Clause
// A burst of the largest inline payloads stays inside the builder's arena, on ports that copy all
// payload and on ports that gather.
#include <vector>

#include "lib/transport/frame_builder.hpp"
#include "tests/support/catch.hpp"

using namespace weft;
using namespace weft::transport;

TEST_CASE("a burst ends before its arena does") {
  const bool gathers = GENERATE(false, true);
  const uint8_t integrity = GENERATE(uint8_t{0}, uint8_t{32});
  Capabilities c;
  c.gather = gathers;
  c.integrity_bits = integrity;
  FrameBuilder builder(c);
  std::vector<TxFrame> frames(c.burst);
  const std::vector<std::byte> payload(1024, std::byte{7});
  Path path;
  builder.begin_burst(frames);
  while (builder.has_room()) {
    std::byte* const head = builder.start(path, 40, 1024);
    for (int i = 0; i < 40; ++i) head[i] = std::byte{1};
    builder.add_safe_payload(payload.data(), 1024);
    builder.finish();
  }
  REQUIRE(builder.count() > 0);
  const TxFrame& first = frames[0];
  const TxFrame& last = frames[builder.count() - 1];
  const auto used = static_cast<size_t>(last.head + last.head_length - first.head);
  const uint32_t usual = gathers && integrity == 0 ? 256 : 4096;
  // The arena: the usual frame of a burst, and one of the largest.
  const size_t largest = gathers && integrity == 0 ? 1024 : 4096;
  const size_t headers = 112;  // the longest, of SRD
  CHECK(used <= size_t{c.burst} * (headers + usual + 16) + headers + largest + 16);
}

// The IP ids of a burst of equal frames: each train counts from 0.
std::vector<uint16_t> train_ids(FrameBuilder& builder, size_t count) {
  std::vector<TxFrame> frames(count);
  Path path;
  builder.begin_burst(frames);
  for (size_t i = 0; i < count; ++i) {
    std::byte* const head = builder.start(path, 40, 0);
    for (int byte = 0; byte < 40; ++byte) head[byte] = std::byte{1};
    builder.finish();
  }
  std::vector<uint16_t> ids;
  for (const TxFrame& frame : frames) ids.push_back(frame.ip_id);
  return ids;
}

TEST_CASE("limit_trains() limits later trains") {
  Capabilities c;
  c.integrity_bits = 32;
  c.train_frames = 8;
  c.train_bytes = 65000;
  FrameBuilder builder(c);
  CHECK(train_ids(builder, 10) == std::vector<uint16_t>{0, 1, 2, 3, 4, 5, 6, 7, 0, 1});
  builder.limit_trains(3);
  CHECK(train_ids(builder, 7) == std::vector<uint16_t>{0, 1, 2, 0, 1, 2, 0});
  builder.limit_trains(64);  // what failed once is not tried again
  CHECK(train_ids(builder, 4) == std::vector<uint16_t>{0, 1, 2, 0});
  builder.limit_trains(1);
  CHECK(train_ids(builder, 3) == std::vector<uint16_t>{0, 0, 0});
}
