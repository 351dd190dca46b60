// SPDX-License-Identifier: BSD-3-Clause
// Patched TIMELY (CoNEXT'16, "ECN or Delay"): TIMELY has no unique fixed point, any split of the
// rates is stable. The patch replaces the gradient's sign by a weight between increase and decrease
// and makes the decrease depend on the RTT itself, so that flows agree on one queue and one rate.
//
//   w = clamp(2 x gradient + 1/2, 0, 1)
//   rate += delta (1 - w);  rate *= 1 - beta w (rtt - T') / T',  T' = T_low reference
//
// The weight and the decrease are from memory of the paper's section 5, not checked against it:
// taken for the shape, not for the last digit.
#include <algorithm>

#include "lib/congestion/manifest.hpp"

namespace weft::congestion {
namespace {

enum : size_t { kAlpha = 1, kBeta, kLow, kHigh, kMinRtt, kAdditive };
constexpr Parameter kParameters[] = {
    {"min_rate_mbps", "Mb/s", 1000, "HPCC simulator, MIN_RATE", {}, "not in the paper"},
    {"alpha", "weight of the newest", 0.875, "HPCC simulator, TIMELY_ALPHA"},
    {"beta",
     "factor",
     0.8,
     "TIMELY section 4.3",
     {},
     "ECN or Delay has 0.008, with which a hundred RTTs halve the rate at 100 Gb/s"},
    {"t_low_us", "us", 50, "TIMELY section 6"},
    {"t_high_us", "us", 500, "TIMELY section 6"},
    {"min_rtt_us", "us", 20, "HPCC simulator, TIMELY_MIN_RTT", {}, "divides the gradient"},
    {"r_ai_mbps",
     "Mb/s",
     100,
     "HPCC simulator, RATE_AI",
     {},
     "10 Mb/s of the paper at 10G, for 100G"},
};

struct Patched {
  double difference;  // smoothed difference of two RTTs, ns
  int64_t last_rtt_ns;
  uint64_t last_update;
};

void start(State& state, const Preset&) { own<Patched>(state) = {}; }

void update(State& state, Patched& flow, const Preset& preset, double rtt_ns) {
  const double additive = preset[kAdditive] * 1e6;
  const double low = preset[kLow] * 1000;
  const double high = preset[kHigh] * 1000;
  double rate = state.decision.rate;
  if (rtt_ns < low) {
    rate += additive;
  } else if (rtt_ns > high) {
    rate *= 1 - 0.8 * (1 - high / rtt_ns);
  } else {
    const double gradient = flow.difference / std::max(preset[kMinRtt] * 1000, 1.0);
    const double weight = std::clamp(2 * gradient + 0.5, 0.0, 1.0);
    const double error = (rtt_ns - low) / std::max(low, 1.0);
    rate = rate * std::max(0.0, 1 - preset[kBeta] * weight * error) + additive * (1 - weight);
  }
  state.decision.rate = preset.clamp(rate);
}

void on_ack(State& state, const Preset& preset, const Ack& ack) {
  Patched& flow = own<Patched>(state);
  const int64_t rtt_ns = ack.rtt.ns();
  if (ack.acked <= flow.last_update || rtt_ns <= 0) return;
  if (flow.last_update != 0) {
    const double newest = static_cast<double>(rtt_ns - flow.last_rtt_ns);
    flow.difference = (1 - preset[kAlpha]) * flow.difference + preset[kAlpha] * newest;
    update(state, flow, preset, static_cast<double>(rtt_ns));
  }
  flow.last_update = std::max(flow.last_update, ack.sent);
  flow.last_rtt_ns = rtt_ns;
}

constexpr Kind kTimelyPatched = {
    .name = "timely-patched",
    .what = "TIMELY with a unique fixed point",
    .paper =
        "Zhu et al., ECN or Delay: Lessons Learnt from Analysis of DCQCN and TIMELY, CoNEXT 2016",
    .signal = Signal::delay,
    .parameters = kParameters,
    .start = start,
    .on_ack = on_ack};

}  // namespace

WEFT_CONTROLLERS(timely_patched, &kTimelyPatched);

}  // namespace weft::congestion
