// SPDX-License-Identifier: BSD-3-Clause
// PINT's one-byte code: right in the mean, monotone, and hpcc-pint's reaction to it.
#include "lib/congestion/digest.hpp"
#include "tests/congestion/congestion_script.hpp"
#include "tests/support/catch.hpp"

namespace weft::congestion {
namespace {

TEST_CASE("a code is the logarithm, up or down in proportion") {
  CHECK(encode_digest(0, 0.5) == 1);
  CHECK(encode_digest(-1, 0.5) == 1);
  CHECK(encode_digest(1e300, 0.5) == 255);
  for (double u = 0.02; u < 400; u *= 1.013) {
    const double wanted = std::log(std::ceil(u * 512)) / std::log(1.05);
    double sum = 0;
    for (int i = 0; i < 1000; ++i) sum += encode_digest(u, (i + 0.5) / 1000);
    CHECK(sum / 1000 == Approx(wanted).margin(0.002));
    CHECK(decode_digest(encode_digest(u, 0.9999)) <= std::ceil(u * 512) / 512 * 1.0001);
  }
}

TEST_CASE("hpcc-pint takes the decoded value for U, without an average") {
  const Preset preset =
      *make_preset("hpcc-pint", {.line = Rate::from_gbps(100), .rtt = Duration::from_ns(12240)});
  Controller c;
  c.start(preset);
  Ack ack;
  ack.acked = 1000;
  ack.sent = 100'000;
  ack.digest = 142;
  c.on_ack(preset, ack);
  CHECK(c.rate() == 100e9);  // the first one only starts the RTT
  ack.acked = 2000;
  c.on_ack(preset, ack);
  CHECK(c.rate() == Approx(100e9 / (decode_digest(142) / 0.95) + 50e6));
  CHECK(decode_digest(142) == Approx(1.995).epsilon(0.01));
  ack.digest = 0;
  const double before = c.rate();
  c.on_ack(preset, ack);
  CHECK(c.rate() == before);
}

TEST_CASE("hpcc-pint counts a trimmed packet as a full queue, by its digest") {
  const Preset preset =
      *make_preset("hpcc-pint", {.line = Rate::from_gbps(100), .rtt = Duration::from_ns(12240)});
  // The rate after a loss in the first round trip, which says `digest`.
  const auto after = [&](Loss::Reason reason, uint8_t digest) {
    Controller c;
    c.start(preset);
    c.on_loss(preset, {.acked = 2000, .sent = 100'000, .reason = reason, .digest = digest});
    return c.rate();
  };
  const auto slowed = [](double utilisation) { return 100e9 / (utilisation / 0.95) + 50e6; };
  CHECK(after(Loss::Reason::trimmed, 160) == Approx(slowed(decode_digest(160))));
  CHECK(after(Loss::Reason::trimmed, 0) == Approx(slowed(2)));
  CHECK(after(Loss::Reason::gap, 0) == Approx(slowed(2)));
  CHECK(after(Loss::Reason::trimmed, 1) == Approx(slowed(1)));  // an average that is late
  CHECK(after(Loss::Reason::timeout, 0) == 100e9);
}

}  // namespace
}  // namespace weft::congestion
