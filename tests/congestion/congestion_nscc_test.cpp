// SPDX-License-Identifier: BSD-3-Clause
// NSCC's four cases, its decreases and quick adapt, in the network of the UEC reference runs
// (UEC simulator: 100 Gb/s, 14,022.72 ns, packets of 4150 B), by numbers that follow from the
// rules.
#include <cmath>

#include "lib/congestion/registry.hpp"
#include "tests/support/catch.hpp"

namespace weft::congestion {
namespace {

constexpr int64_t kRttPs = 14'022'720;
constexpr uint32_t kPacket = 4150;

Preset preset_of(const char* name, std::vector<Setting> settings = {}) {
  const Result<Preset> preset = make_preset(
      name, {.line = Rate::from_gbps(100), .rtt = Duration{kRttPs}, .network = {}}, settings);
  REQUIRE(preset);
  return *preset;
}

class Flow {
 public:
  explicit Flow(const Preset& preset) : preset_(preset) { controller.start(preset); }

  void ack(int64_t delay_ps, bool marked, uint32_t bytes = kPacket, int64_t gap_ps = 332'000) {
    now.ps += gap_ps;
    controller.on_ack(preset_, {.now = now,
                                .rtt = Duration{kRttPs + delay_ps},
                                .in_flight = in_flight,
                                .newly_acked = bytes,
                                .packet_bytes = 4086,
                                .marked = marked});
  }
  void nack(bool last_hop = false, int64_t gap_ps = 332'000) {
    now.ps += gap_ps;
    controller.on_loss(preset_, {.now = now,
                                 .in_flight = in_flight,
                                 .rtt = Duration{kRttPs},
                                 .bytes = kPacket,
                                 .reason = Loss::Reason::trimmed,
                                 .last_hop = last_hop});
  }
  uint64_t window() const { return controller.window(); }

  Controller controller;
  Instant now{100'000'000};
  uint64_t in_flight = 200'000;

 private:
  const Preset& preset_;
};

// Down to a window from which it can grow, by time-outs.
void shrink(Flow& flow, const Preset& preset, int packets) {
  for (int i = 0; i < packets; ++i)
    flow.controller.on_loss(preset,
                            {.now = flow.now, .bytes = kPacket, .reason = Loss::Reason::timeout});
}

TEST_CASE("nscc starts with 1.5 BDP, its most, and never goes below one packet") {
  const Preset preset = preset_of("nscc");
  Flow flow(preset);
  CHECK(flow.window() == 262'926);
  CHECK(flow.controller.rate() == 100e9);
  for (int i = 0; i < 20; ++i) flow.ack(0, false);
  CHECK(flow.window() == 262'926);
  shrink(flow, preset, 1);
  CHECK(flow.window() == 262'926 - kPacket);
  shrink(flow, preset, 1000);
  CHECK(flow.window() == kPacket);
}

TEST_CASE("nscc: the most follows the least RTT seen") {
  const Preset preset = preset_of("nscc");
  Flow flow(preset);
  flow.ack(-kRttPs / 2, false);
  CHECK(flow.window() == 131'463);
  const Preset kept = preset_of("nscc", {{"least_base", 0.75}});
  Flow other(kept);
  other.ack(-kRttPs / 2, false);
  CHECK(other.window() == 197'194);
}

TEST_CASE("nscc: a marked fast packet changes nothing, unmarked ones grow the window") {
  const Preset preset = preset_of("nscc");
  Flow still(preset);
  shrink(still, preset, 20);
  const uint64_t before = still.window();
  // The first adjustment is due at once and adds eta; then for less than 8 packets nothing.
  still.ack(5'000'000, true);
  const uint64_t eta = still.window() - before;
  CHECK(eta == static_cast<uint64_t>(0.15 * 4086 * 175'284 / 150'000));
  for (int i = 0; i < 7; ++i) still.ack(5'000'000, true);
  CHECK(still.window() == before + eta);

  Flow growing(preset);
  shrink(growing, preset, 20);
  growing.ack(5'000'000, true);
  const auto window = static_cast<double>(growing.window());
  // 9 packets at 5 us: more than 8, adjusted by alpha n (target - delay) / window.
  for (int i = 0; i < 9; ++i) growing.ack(5'000'000, false);
  const double alpha = 4.0 * 4086 * 175'284 / 150'000 / 12e6;
  const double target = 0.75 * kRttPs;
  const double increase = alpha * 9 * kPacket * (target - 5'000'000) / window;
  CHECK(std::abs(static_cast<double>(growing.window()) - window - increase) < 3);
}

TEST_CASE("nscc: unmarked and slow grows by the fair constant") {
  const Preset preset = preset_of("nscc");
  Flow flow(preset);
  shrink(flow, preset, 20);
  flow.ack(5'000'000, true);
  const auto window = static_cast<double>(flow.window());
  for (int i = 0; i < 9; ++i) flow.ack(12'000'000, false);
  const double increase = 5.0 * 4086 * 175'284 / 150'000 * 9 * kPacket / window;
  CHECK(std::abs(static_cast<double>(flow.window()) - window - increase) < 3);
}

TEST_CASE("nscc: marked and slow cuts by the average delay, at most once per RTT and by half") {
  const Preset preset = preset_of("nscc", {{"smoothing", 1}, {"quick_share", 0}});
  Flow flow(preset);
  const auto before = static_cast<double>(flow.window());
  flow.ack(14'000'000, true);
  const double target = 0.75 * kRttPs;
  const double factor = 1 - 0.8 * (14'000'000 - std::floor(target)) / 14'000'000;
  // The adjustment that is due adds eta.
  CHECK(std::abs(static_cast<double>(flow.window()) - before * factor - 716.2) < 2);
  const uint64_t once = flow.window();
  flow.ack(14'000'000, true);
  CHECK(flow.window() == once);
  flow.ack(1'000'000'000, true, kPacket, 2 * kRttPs);
  CHECK(static_cast<double>(flow.window()) < 0.5 * static_cast<double>(once) + 720);
}

TEST_CASE("nscc: an unmarked sample above target hardly counts in the average") {
  const Preset preset = preset_of("nscc", {{"quick_share", 0}});
  Flow flow(preset);
  // Were they believed, the average would be far above target.
  for (int i = 0; i < 1000; ++i) flow.ack(40'000'000, false);
  const uint64_t before = flow.window();
  flow.ack(40'000'000, true, kPacket, 2 * kRttPs);
  CHECK(flow.window() >= before);
}

TEST_CASE("nscc: a NACK costs its packet, and quick adapt the rest") {
  const Preset preset = preset_of("nscc");
  Flow flow(preset);
  flow.nack();
  CHECK(flow.window() == 262'926 - kPacket);
  // A base RTT and the target later, two packets were delivered.
  flow.ack(5'000'000, false, 2 * kPacket);
  flow.nack(false, 30'000'000);
  CHECK(flow.window() == 2 * kPacket);
  // Marks are ignored until as much as was in flight has passed.
  flow.ack(20'000'000, true);
  CHECK(flow.window() == 2 * kPacket);
}

TEST_CASE("nscc: quick adapt keeps a window that delivers") {
  const Preset preset = preset_of("nscc");
  Flow flow(preset);
  flow.nack();
  for (int i = 0; i < 20; ++i) flow.ack(5'000'000, false);
  const uint64_t before = flow.window();
  flow.nack(false, 30'000'000);
  CHECK(flow.window() == before - kPacket);
}

TEST_CASE("nscc: last-hop trims cost nothing beside rccc") {
  const Preset alone = preset_of("nscc");
  Flow sender(alone);
  sender.nack(true);
  CHECK(sender.window() == 262'926 - kPacket);
  const Preset both = preset_of("nscc+rccc");
  Flow spared(both);
  spared.nack(true);
  CHECK(spared.window() == 262'926);
  spared.nack(false);
  CHECK(spared.window() == 262'926 - kPacket);
}

TEST_CASE("nscc: a window without delay grows fast") {
  const Preset preset = preset_of("nscc");
  Flow flow(preset);
  shrink(flow, preset, 40);
  const uint64_t begin = flow.window();
  int packets = 0;
  while (flow.window() < 2 * begin && packets < 1000) {
    flow.ack(500'000, false);
    ++packets;
  }
  // A quarter (scaled) of the bytes once a window of them has passed.
  CHECK(packets > 30);
  CHECK(packets < 100);
}

}  // namespace
}  // namespace weft::congestion
