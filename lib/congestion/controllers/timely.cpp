// SPDX-License-Identifier: BSD-3-Clause
// TIMELY (SIGCOMM'15): the gradient of the RTT, once per RTT. A growing delay cuts the rate in
// proportion, a falling one raises it; below T_low it always raises, above T_high always cuts.
// Nothing bounds an incast's queue unless the suffix +win adds a window.
#include <algorithm>

#include "lib/congestion/manifest.hpp"

namespace weft::congestion {
namespace {

enum : size_t { kAlpha = 1, kBeta, kLow, kHigh, kMinRtt, kAdditive, kHyper, kStages };
constexpr Parameter kParameters[] = {
    {"min_rate_mbps", "Mb/s", 1000, "HPCC simulator, MIN_RATE", {}, "not in the paper"},
    {"alpha", "weight of the newest", 0.875, "HPCC simulator, TIMELY_ALPHA"},
    {"beta", "factor", 0.8, "TIMELY section 4.3"},
    {"t_low_us", "us", 50, "TIMELY section 6"},
    {"t_high_us", "us", 500, "TIMELY section 6"},
    {"min_rtt_us", "us", 20, "HPCC simulator, TIMELY_MIN_RTT", {}, "divides the gradient"},
    {"r_ai_mbps",
     "Mb/s",
     100,
     "HPCC simulator, RATE_AI",
     {},
     "10 Mb/s of the paper at 10G, for 100G"},
    {"r_hai_mbps", "Mb/s", 500, "HPCC simulator, RATE_HAI", {}, "5 x r_ai, as in the paper"},
    {"hai_after", "increases", 5, "TIMELY section 4.3"},
};

struct Timely {
  double reference;   // bits per second
  double difference;  // smoothed difference of two RTTs, ns
  int64_t last_rtt_ns;
  uint64_t last_update;  // what had been sent at the last update; 0: none yet
  uint32_t increases;    // in a row
};

void start(State& state, const Preset& preset) {
  own<Timely>(state) = {.reference = preset.line_rate};
}

// The factor of a decrease, or a negative number for an increase.
double decrease_factor(const Preset& preset, double rtt_ns, double gradient) {
  const double high = preset[kHigh] * 1000;
  if (rtt_ns < preset[kLow] * 1000) return -1;
  if (rtt_ns > high) return 1 - preset[kBeta] * (1 - high / rtt_ns);
  if (gradient <= 0) return -1;
  return std::max(0.0, 1 - preset[kBeta] * gradient);
}

void on_ack(State& state, const Preset& preset, const Ack& ack) {
  Timely& timely = own<Timely>(state);
  const int64_t rtt_ns = ack.rtt.ns();
  if (ack.acked <= timely.last_update || rtt_ns <= 0) return;
  if (timely.last_update != 0) {
    const double newest = static_cast<double>(rtt_ns - timely.last_rtt_ns);
    timely.difference = (1 - preset[kAlpha]) * timely.difference + preset[kAlpha] * newest;
    const double gradient = timely.difference / (preset[kMinRtt] * 1000);
    const double factor = decrease_factor(preset, static_cast<double>(rtt_ns), gradient);
    if (factor < 0) {
      const bool hyper = timely.increases >= preset[kStages];
      timely.reference += preset[hyper ? kHyper : kAdditive] * 1e6;
      ++timely.increases;
    } else {
      timely.reference *= factor;
      timely.increases = 0;
    }
    timely.reference = preset.clamp(timely.reference);
    state.decision.rate = timely.reference;
  }
  timely.last_update = std::max(timely.last_update, ack.sent);
  timely.last_rtt_ns = rtt_ns;
}

constexpr std::string_view kTimelyPaper =
    "Mittal et al., TIMELY: RTT-based Congestion Control for the Datacenter, SIGCOMM 2015";
constexpr Kind kTimely = {.name = "timely",
                          .what = "TIMELY: gradient of the RTT, once per RTT",
                          .paper = kTimelyPaper,
                          .signal = Signal::delay,
                          .parameters = kParameters,
                          .start = start,
                          .on_ack = on_ack};

}  // namespace

WEFT_CONTROLLERS(timely, &kTimely);

}  // namespace weft::congestion
