// SPDX-License-Identifier: BSD-3-Clause
// TIMELY and DCTCP by hand.
#include "tests/congestion/congestion_script.hpp"
#include "tests/support/catch.hpp"

namespace weft::congestion {
namespace {

const Conditions kGradientNetwork{.line = Rate::from_gbps(100), .rtt = Duration::from_ns(12240)};

Ack rtt_ack(uint64_t acked, uint64_t sent, int64_t rtt_us) {
  Ack ack;
  ack.acked = acked;
  ack.sent = sent;
  ack.rtt = Duration::from_us(rtt_us);
  return ack;
}

TEST_CASE("timely: once per RTT, by the gradient between T_low and T_high") {
  const Preset preset = *make_preset("timely", kGradientNetwork);
  Controller c;
  c.start(preset);
  c.on_ack(preset, rtt_ack(1000, 100'000, 100));
  c.on_ack(preset, rtt_ack(50'000, 110'000, 400));  // of the same RTT: nothing
  CHECK(c.rate() == 100e9);
  c.on_ack(preset, rtt_ack(101'000, 200'000, 110));
  // diff = 0.875 x 10 us; gradient = diff / 20 us; cut by 0.8 x gradient.
  CHECK(c.rate() == Approx(100e9 * (1 - 0.8 * 8.75 / 20)).epsilon(1e-12));
  const double after = c.rate();
  c.on_ack(preset, rtt_ack(201'000, 300'000, 60));  // falls: adds 100 Mb/s
  CHECK(c.rate() == Approx(after + 100e6).epsilon(1e-12));
  c.on_ack(preset, rtt_ack(301'000, 400'000, 1000));  // above T_high
  CHECK(c.rate() == Approx((after + 100e6) * (1 - 0.8 * 0.5)).epsilon(1e-12));
}

TEST_CASE("timely: below T_low it adds, five times as much after five times") {
  const Preset preset = *make_preset("timely", kGradientNetwork);
  Controller c;
  c.start(preset);
  c.on_ack(preset, rtt_ack(1, 10, 100));
  c.on_ack(preset, rtt_ack(11, 20, 1000));
  double rate = c.rate();
  for (uint64_t i = 0; i < 8; ++i) {
    c.on_ack(preset, rtt_ack(21 + 10 * i, 30 + 10 * i, 13));
    rate += i < 5 ? 100e6 : 500e6;
    CHECK(c.rate() == Approx(rate).epsilon(1e-12));
  }
}

Ack mark_ack(uint64_t acked, uint64_t sent, bool marked) {
  Ack ack;
  ack.acked = acked;
  ack.sent = sent;
  ack.packet_bytes = 1000;
  ack.marked = marked;
  return ack;
}

TEST_CASE("dctcp: one cut per window by alpha / 2, then an increase per window") {
  const Preset preset = *make_preset("dctcp", kGradientNetwork);
  Controller c;
  c.start(preset);
  // The first acknowledgement opens a window of 10 packets (and adds, at line rate).
  c.on_ack(preset, mark_ack(1000, 10'000, false));
  c.on_ack(preset, mark_ack(2000, 11'000, true));
  CHECK(c.rate() == 50e9);  // alpha is 1
  c.on_ack(preset, mark_ack(3000, 12'000, true));
  CHECK(c.rate() == 50e9);                            // recovering until 11,000 is acknowledged
  c.on_ack(preset, mark_ack(10'500, 20'000, false));  // a new window: 2 of 11 were marked
  CHECK(c.rate() == 50e9);
  c.on_ack(preset, mark_ack(12'000, 21'000, true));
  const double alpha = 15.0 / 16 + 2.0 / 11 / 16;
  CHECK(c.rate() == Approx(50e9 * (1 - alpha / 2)).epsilon(1e-12));
  const double after = c.rate();
  c.on_ack(preset, mark_ack(30'000, 40'000, false));
  CHECK(c.rate() == Approx(after + 615e6).epsilon(1e-12));
}

}  // namespace
}  // namespace weft::congestion
