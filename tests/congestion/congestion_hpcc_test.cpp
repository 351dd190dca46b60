// SPDX-License-Identifier: BSD-3-Clause
// HPCC by hand: the measured U, the per-ACK rate against the per-RTT reference, the erratum.
#include "tests/congestion/congestion_script.hpp"
#include "tests/support/catch.hpp"

namespace weft::congestion {
namespace {

const Conditions kHpccNetwork{.line = Rate::from_gbps(100), .rtt = Duration::from_ns(10'000)};

Ack ack_of(uint64_t acked, uint64_t sent, std::span<const IntHop> hops) {
  Ack ack;
  ack.acked = acked;
  ack.sent = sent;
  ack.hops = hops;
  return ack;
}

TEST_CASE("hpcc: the first acknowledgement is only stored, then U is an average over T") {
  const Preset preset = *make_preset("hpcc", kHpccNetwork);
  Controller c;
  c.start(preset);
  IntHop hop{100'000, 1000, 0, 50'000};
  c.on_ack(preset, ack_of(1000, 100'000, {&hop, 1}));
  CHECK(c.rate() == 100e9);
  // 1 us later: 12,500 B sent in it (line rate), a queue of 62,500 B after 50,000 B.
  hop = {100'000, 2000, 12'500, 62'500};
  c.on_ack(preset, ack_of(2000, 101'000, {&hop, 1}));
  const double u = 1 + 50'000 / 125'000.0;
  const double average = (1 * 9000 + u * 1000) / 10'000;
  CHECK(c.rate() == Approx(100e9 / (average / 0.95) + 50e6).epsilon(1e-12));
  CHECK(c.window() == static_cast<uint64_t>(125'000 * c.rate() / 100e9));
}

TEST_CASE("hpcc: many acknowledgements of one RTT react against one reference") {
  const Preset preset = *make_preset("hpcc", kHpccNetwork);
  Controller c;
  c.start(preset);
  IntHop hop{100'000, 0, 0, 125'000};
  c.on_ack(preset, ack_of(1000, 100'000, {&hop, 1}));
  for (uint32_t i = 1; i <= 90; ++i) {
    hop = {100'000, i * 10'000, i * 125'000, 125'000};  // U = 2 at once: tau = T
    c.on_ack(preset, ack_of(1000 + i * 1000, 100'000 + i * 1000, {&hop, 1}));
    CHECK(c.rate() == Approx(100e9 / (2 / 0.95) + 50e6).epsilon(1e-12));
  }
  // The first one beyond what was sent then moves the reference, and the next one cuts again.
  const double once = c.rate();
  for (uint32_t i = 91; i <= 102; ++i) {
    hop = {100'000, i * 10'000, i * 125'000, 125'000};
    c.on_ack(preset, ack_of(1000 + i * 1000, 300'000, {&hop, 1}));
  }
  CHECK(c.rate() == Approx(once / (2 / 0.95) + 50e6).epsilon(1e-12));
}

TEST_CASE("hpcc: max_stage 0 always multiplies, 5 adds five times first") {
  const Setting five[] = {{"max_stage", 5}};
  const Preset erratum = *make_preset("hpcc", kHpccNetwork);
  const Preset printed = *make_preset("hpcc", kHpccNetwork, five);
  // Half full from the start, and a reference that moves with every acknowledgement.
  const auto run = [](const Preset& preset, uint32_t acks) {
    Controller c;
    c.start(preset);
    IntHop hop{100'000, 0, 0, 125'000};
    c.on_ack(preset, ack_of(1, 1, {&hop, 1}));
    hop = {100'000, 10'000, 250'000, 125'000};  // a cut to 0.95 / 3
    c.on_ack(preset, ack_of(2, 2, {&hop, 1}));
    for (uint32_t i = 0; i < acks; ++i) {
      hop = {100'000, 20'000 + i * 10'000, 250'000 + (i + 1) * 62'500, 0};
      c.on_ack(preset, ack_of(i + 3, i + 3, {&hop, 1}));
    }
    return c.rate();
  };
  const double cut = run(printed, 0);
  CHECK(run(printed, 5) == Approx(cut + 5 * 50e6).epsilon(1e-9));
  CHECK(run(printed, 6) == Approx((cut + 5 * 50e6) / (0.5 / 0.95) + 50e6).epsilon(1e-9));
  CHECK(run(erratum, 1) == Approx(cut / (0.5 / 0.95) + 50e6).epsilon(1e-9));
}

TEST_CASE("hpcc: an invalid record is ignored, one of another path is only stored") {
  const Preset preset = *make_preset("hpcc", kHpccNetwork);
  Controller c;
  c.start(preset);
  const auto tell = [&](IntHop hop, uint16_t path = 0, size_t hops = 1) {
    const IntHop both[] = {hop, hop};
    Ack ack = ack_of(2000, 100'000, {both, hops});
    ack.path = path;
    c.on_ack(preset, ack);
  };
  tell({100'000, 10'000, 0, 0});
  tell({100'000, 10'000, 1000, 500'000});        // no time has passed
  tell({100'000, 9000, 2000, 500'000});          // time went back
  tell({0, 20'000, 100'000, 500'000});           // a port without a rate
  tell({100'000, 30'000, 900'000, 500'000}, 1);  // another way
  CHECK(c.rate() == 100e9);
  tell({100'000, 40'000, 1'900'000, 500'000}, 1, 2);  // of two hops
  CHECK(c.rate() == 100e9);
  tell({100'000, 50'000, 2'900'000, 500'000}, 1, 2);
  CHECK(c.rate() < 100e9);
}

TEST_CASE("hpcc: the fullest of five hops counts, a path of another length starts over") {
  const Preset preset = *make_preset("hpcc", kHpccNetwork);
  Controller c;
  c.start(preset);
  IntHop hops[5] = {};
  for (IntHop& hop : hops) hop = {400'000, 1000, 0, 0};
  c.on_ack(preset, ack_of(1000, 100'000, hops));
  for (IntHop& hop : hops) hop = {400'000, 11'000, 250'000, 0};  // half full
  hops[3] = {100'000, 11'000, 125'000, 0};                       // full
  c.on_ack(preset, ack_of(2000, 100'000, hops));
  CHECK(c.rate() == Approx(95e9 + 50e6).epsilon(1e-12));
  const double before = c.rate();
  for (IntHop& hop : hops) hop.queue_bytes = 1'000'000;
  c.on_ack(preset, ack_of(3000, 100'000, {hops, 3}));
  CHECK(c.rate() == before);
}

}  // namespace
}  // namespace weft::congestion
