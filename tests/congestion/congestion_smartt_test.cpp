// SPDX-License-Identifier: BSD-3-Clause
// SMaRTT's cases, fast increase and quick adapt, by numbers that follow from its rules: 100 Gb/s,
// 12 us, so a BDP of 150,000 B and a target of 18 us, packets of 5,000 B.
#include <cmath>

#include "lib/congestion/registry.hpp"
#include "tests/support/catch.hpp"

namespace weft::congestion {
namespace {

constexpr int64_t kTripPs = 12'000'000;
constexpr uint32_t kBytes = 5000;
constexpr uint64_t kMost = 225'000;  // 1.5 BDP

class SmarttFlow {
 public:
  SmarttFlow() : preset_(preset()) { controller_.start(preset_); }

  // An acknowledgement of `packets` packets, delayed by `delay_ps`.
  void ack(int64_t delay_ps, bool marked, uint32_t packets = 1, int64_t service_ps = 0) {
    now_.ps += 400'000;
    controller_.on_ack(preset_, {.now = now_,
                                 .rtt = Duration{kTripPs + delay_ps},
                                 .service = Duration{service_ps},
                                 .in_flight = in_flight,
                                 .newly_acked = packets * kBytes,
                                 .packet_bytes = 4096,
                                 .marked = marked ? packets : 0});
  }
  void lose(Loss::Reason reason) {
    now_.ps += 400'000;
    controller_.on_loss(preset_,
                        {.now = now_, .in_flight = in_flight, .bytes = kBytes, .reason = reason});
  }
  void pass(int64_t ps) { now_.ps += ps; }
  // Down to a window from which it can grow: time-outs while quick adapt is not due.
  void shrink(int packets) {
    for (int i = 0; i < packets; ++i) lose(Loss::Reason::timeout);
  }
  double window() const { return static_cast<double>(controller_.window()); }

  uint64_t in_flight = 100'000;

 private:
  static Preset preset() {
    const Result<Preset> made = make_preset("smartt", {.line = Rate::from_gbps(100),
                                                       .rtt = Duration{kTripPs},
                                                       .network = {},
                                                       .packet_bytes = kBytes});
    REQUIRE(made);
    return *made;
  }

  const Preset preset_;
  Controller controller_;
  Instant now_{100'000'000};
};

bool near(double is, double wanted) { return std::abs(is - wanted) <= 2; }

// A flow with a window of 150,000 B, one BDP, whose quick adapt is not due for 18 us.
SmarttFlow at_one_bdp() {
  SmarttFlow flow;
  flow.ack(8'000'000, true);  // quick adapt looks for the first time: the period begins
  flow.shrink(15);
  CHECK(near(flow.window(), 150'000));
  return flow;
}

TEST_CASE("smartt begins with 1.5 BDP, its most, and never goes below one packet") {
  SmarttFlow flow;
  CHECK(flow.window() == kMost);
  flow.ack(2'000'000, false);
  CHECK(flow.window() == kMost);
  flow.shrink(1000);
  CHECK(flow.window() == kBytes);
}

TEST_CASE("smartt: the most follows the least round trip, without the receiver's service") {
  SmarttFlow flow;
  flow.ack(0, false, 1, 3'000'000);  // 9 us on the way
  CHECK(near(flow.window(), kMost * 0.75));
  flow.ack(-6'000'000, false);
  CHECK(near(flow.window(), kMost * 0.5));
}

TEST_CASE("smartt: unmarked below the target, by what is missing to it and a fair share") {
  SmarttFlow flow = at_one_bdp();
  flow.ack(3'000'000, false);
  // (18 - 15) / 15 x 2 x 5000 x 5000 / 150,000, and 0.02 x 5000.
  CHECK(near(flow.window(), 150'000 + 0.2 * 2 * 5000.0 * 5000 / 150'000 + 100));
}

TEST_CASE("smartt: unmarked above the target, by a fair share, for each packet") {
  SmarttFlow flow = at_one_bdp();
  flow.ack(8'000'000, false);
  CHECK(near(flow.window(), 150'100));
  flow.ack(8'000'000, false, 4);
  CHECK(near(flow.window(), 150'100 + 4 * 100));
  flow.shrink(15);
  const double half = flow.window();  // of a BDP, and so twice the share of each packet
  flow.ack(8'000'000, false);
  CHECK(near(flow.window(), half + 100 * 150'000 / half));
}

TEST_CASE("smartt shrinks by marks only while more than 0.3 of the packets have them") {
  SmarttFlow flow = at_one_bdp();
  // Each mark weighs 0.05: after the one of at_one_bdp() and six more the mean is 0.302.
  for (int i = 0; i < 5; ++i) flow.ack(8'000'000, true);
  CHECK(near(flow.window(), 150'000));
  flow.ack(8'000'000, true);
  // (20 - 18) / 20 x 5000 and 0.5 x 5000.
  CHECK(near(flow.window(), 150'000 - 500 - 2500));
  const double before = flow.window();
  flow.ack(2'000'000, true);  // below the target: the second part alone
  CHECK(near(flow.window(), before - 2500 * before / 150'000));
  const double rest = flow.window();
  flow.ack(100'000'000, true);  // both parts together: a packet at most
  CHECK(near(flow.window(), rest - kBytes));
}

TEST_CASE("smartt: after a window without mark and delay, a packet for each packet") {
  SmarttFlow flow = at_one_bdp();
  flow.in_flight = 0;
  flow.pass(18'000'000);
  flow.ack(2'000'000, false, 4);  // quick adapt: a window of 4 packets, grown by this one's cases
  const auto calm = static_cast<int>(flow.window() / kBytes);
  flow.ack(2'000'000, false);  // the last sign: a window of that time has to pass without one
  double before = 0;
  for (int i = 0; i < calm; ++i) {
    before = flow.window();
    flow.ack(0, false);
    CHECK(flow.window() - before < kBytes / 2);
  }
  for (int i = 0; i < 3; ++i) {
    before = flow.window();
    flow.ack(0, false);
    CHECK(near(flow.window(), before + kBytes));
  }
  flow.ack(2'000'000, false);
  before = flow.window();
  flow.ack(0, false);
  CHECK(flow.window() - before < kBytes / 2);
}

TEST_CASE("smartt: quick adapt sets the window to what was delivered in a target's time") {
  for (const Loss::Reason reason : {Loss::Reason::trimmed, Loss::Reason::gap}) {
    SmarttFlow flow = at_one_bdp();
    flow.pass(18'000'000);
    flow.ack(8'000'000, false);  // looks, for the losses of at_one_bdp(): 1 packet was delivered
    CHECK(flow.window() <= 2 * kBytes);
    // Until what was in flight is delivered, neither marks nor losses count.
    const double low = flow.window();
    flow.ack(8'000'000, true);
    flow.lose(reason);
    CHECK(near(flow.window(), low));
    for (int i = 0; i < 20; ++i) flow.ack(8'000'000, false);
    const double grown = flow.window();
    flow.lose(reason);
    CHECK(near(flow.window(), std::max<double>(grown - kBytes, kBytes)));
    // The next time, too, all that is in flight then is waited for.
    flow.pass(18'000'000);
    for (int i = 0; i < 40; ++i) flow.ack(8'000'000, false);
    flow.lose(reason);
    flow.pass(18'000'000);
    flow.ack(8'000'000, false);
    const double adapted = flow.window();
    for (int i = 0; i < 19; ++i) flow.ack(8'000'000, true);
    CHECK(near(flow.window(), adapted));
  }
}

}  // namespace
}  // namespace weft::congestion
