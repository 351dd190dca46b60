// SPDX-License-Identifier: BSD-3-Clause
// lib/congestion: mswift goes by the median of the last delays, swift by each.
#include <algorithm>

#include "lib/congestion/registry.hpp"
#include "tests/support/catch.hpp"

namespace weft::congestion {
namespace {

constexpr Duration kBase = Duration::from_us(12);

// A flow over four paths, of which `slow` take ten times as long as the network; its window after
// `acks` acknowledgements, in parts of the largest.
double window(const char* name, uint32_t slow, uint32_t acks = 2000) {
  const Result<Preset> preset =
      make_preset(name, {.line = Rate::from_gbps(100), .rtt = kBase, .network = {}});
  REQUIRE(preset);
  Controller controller;
  controller.start(*preset);
  const auto most = static_cast<double>(controller.window());
  Ack ack;
  ack.packet_bytes = ack.newly_acked = 4096;
  for (uint32_t i = 0; i < acks; ++i) {
    ack.now = Instant{} + Duration::from_us(i);
    ack.path = static_cast<uint16_t>(i % 4);
    ack.rtt = ack.path < slow ? kBase * 10 : kBase;
    controller.on_ack(*preset, ack);
  }
  return static_cast<double>(controller.window()) / most;
}

TEST_CASE("one slow path of four holds up swift, not mswift") {
  CHECK(window("mswift", 1) == 1.0);
  CHECK(window("swift", 1) < 0.5);
}

TEST_CASE("when most paths are slow mswift yields as swift does") {
  CHECK(window("mswift", 3) < 0.1);
  CHECK(window("mswift", 4) == window("swift", 4));
  CHECK(window("mswift", 0) == window("swift", 0));
}

TEST_CASE("mswift reacts from the first acknowledgement on, over a sliding window of samples") {
  CHECK(window("mswift", 4, 1) == window("swift", 4, 1));
  const Result<Preset> preset =
      make_preset("mswift", {.line = Rate::from_gbps(100), .rtt = kBase, .network = {}});
  Controller controller;
  controller.start(*preset);
  Ack ack;
  ack.packet_bytes = ack.newly_acked = 4096;
  uint64_t least = UINT64_MAX;
  for (int i = 0; i < 200; ++i) {
    ack.now = ack.now + kBase;
    ack.rtt = i < 100 ? kBase * 10 : kBase;
    controller.on_ack(*preset, ack);
    if (i < 100 + 8) least = std::min(least, controller.window());
  }
  CHECK(controller.window() > least);
  ack.rtt = Duration{};  // unknown: says nothing
  const uint64_t before = controller.window();
  controller.on_ack(*preset, ack);
  CHECK(controller.window() == before);
}

}  // namespace
}  // namespace weft::congestion
