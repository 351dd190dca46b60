// SPDX-License-Identifier: BSD-3-Clause
// A congestion controller of your own: additive increase, multiplicative decrease on marks. It uses
// only weft/congestion.hpp. custom_controller.cpp runs it in a device, simulate.cpp in a simulated
// network.
#pragma once

#include "weft/congestion.hpp"

namespace cc = weft::congestion;
inline constexpr cc::Parameter kParameters[] = {
    {"min_rate_mbps", "Mb/s", 10, cc::kNoSource, {}, "chosen here"},
    {"step_mbps", "Mb/s per RTT", 100, cc::kNoSource, {}, "chosen here"},
};

inline int steps = 0;  // rate increases of all flows
struct Tortoise {
  uint64_t window_end;
};  // of one flow; zero when the flow starts

inline void on_ack(cc::State& state, const cc::Preset& preset, const cc::Ack& ack) {
  if (ack.acked < cc::own<Tortoise>(state).window_end) return;
  cc::own<Tortoise>(state).window_end = ack.sent;  // once per round trip
  state.decision.rate += preset[1] * 1e6;
  ++steps;
}

inline void on_cnp(cc::State& state, const cc::Preset&, weft::Instant) { state.decision.rate /= 2; }

inline constexpr cc::Kind kTortoise = {.name = "tortoise",
                                       .what = "AIMD",
                                       .parameters = kParameters,
                                       .on_ack = on_ack,
                                       .on_cnp = on_cnp};
