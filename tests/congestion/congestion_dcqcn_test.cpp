// SPDX-License-Identifier: BSD-3-Clause
// DCQCN's timers by hand: what the first CNP does, when a cut comes, how the rate climbs back.
#include "tests/congestion/congestion_script.hpp"
#include "tests/support/catch.hpp"

namespace weft::congestion {
namespace {

constexpr int64_t kUs = 1'000'000;  // ps
const Conditions kNetwork{.line = Rate::from_gbps(100), .rtt = Duration::from_ns(12240)};

TEST_CASE("dcqcn-hpccsim: the first CNP keeps the rate, the check 4 us + 1 ns later cuts it") {
  const Preset preset = *make_preset("dcqcn-hpccsim", kNetwork);
  Controller c;
  c.start(preset);
  CHECK(c.next_deadline().is_never());
  c.on_cnp(preset, Instant{10 * kUs});
  CHECK(c.rate() == 100e9);
  CHECK(c.next_deadline().ps == 14 * kUs + 1000);

  // Four periods of alpha without a CNP (the first one does not count for alpha).
  c.on_deadline(preset, c.next_deadline());
  double alpha = 1;
  for (int i = 0; i < 4; ++i) alpha *= 1 - 1.0 / 256;
  CHECK(c.rate() == Approx(100e9 * (1 - alpha / 2)).epsilon(1e-12));
  // The increase timer runs from the cut.
  CHECK(c.next_deadline().ps == 314 * kUs + 1000);
}

TEST_CASE("dcqcn-hpccsim: checks stay on their grid, alpha counts one CNP per period") {
  const Preset preset = *make_preset("dcqcn-hpccsim", kNetwork);
  Controller c;
  c.start(preset);
  c.on_cnp(preset, Instant{0});
  c.on_deadline(preset, c.next_deadline());  // at 4.001 us
  const double after_first = c.rate();
  c.on_cnp(preset, Instant{9 * kUs + 500'000});
  c.on_cnp(preset, Instant{9 * kUs + 600'000});
  CHECK(c.next_deadline().ps == 12 * kUs + 1000);
  c.on_deadline(preset, c.next_deadline());
  const double g = 1.0 / 256;
  double alpha = 1;
  for (int period = 1; period <= 12; ++period) alpha = (1 - g) * alpha + (period == 10 ? g : 0);
  CHECK(c.rate() == Approx(after_first * (1 - alpha / 2)).epsilon(1e-12));
}

TEST_CASE("dcqcn-hpccsim: halfway to the target, then R_AI, then R_HAI") {
  const Preset preset = *make_preset("dcqcn-hpccsim", kNetwork);
  Controller c;
  c.start(preset);
  c.on_cnp(preset, Instant{0});
  c.on_deadline(preset, c.next_deadline());
  double rate = c.rate();
  double target = 100e9;
  const double steps[] = {0, 20e6, 200e6, 200e6};
  for (const double step : steps) {
    c.on_deadline(preset, c.next_deadline());
    target = std::min(100e9, target + step);
    rate = (rate + target) / 2;
    CHECK(c.rate() == Approx(rate).epsilon(1e-12));
  }
  // A cut after an increase takes the current rate for the target: recovery ends half way to it.
  c.on_cnp(preset, Instant{1210 * kUs});
  c.on_deadline(preset, c.next_deadline());
  const double cut = c.rate();
  CHECK(cut < rate);
  c.on_deadline(preset, c.next_deadline());
  CHECK(c.rate() == Approx((cut + rate) / 2).epsilon(1e-12));
}

TEST_CASE("dcqcn-paper: each CNP cuts at once, alpha falls every 55 us without one") {
  const Preset preset = *make_preset("dcqcn-paper", kNetwork);
  Controller c;
  c.start(preset);
  c.on_cnp(preset, Instant{100 * kUs});
  CHECK(c.rate() == 50e9);
  c.on_cnp(preset, Instant{150 * kUs});
  CHECK(c.rate() == 25e9);  // alpha is still 1
  // Fast recovery towards 50 Gb/s, the rate before the second cut, every 55 us.
  c.on_deadline(preset, Instant{205 * kUs});
  CHECK(c.rate() == 37.5e9);
}

TEST_CASE("dcqcn-paper: the byte counter drives recovery beside the timer") {
  const Preset preset = *make_preset("dcqcn-paper", kNetwork);
  Controller c;
  c.start(preset);
  c.on_cnp(preset, Instant{0});
  for (int i = 0; i < 10'000; ++i) c.on_sent(preset, 1000, Instant{1 * kUs});
  CHECK(c.rate() == 75e9);
}

}  // namespace
}  // namespace weft::congestion
