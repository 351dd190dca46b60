// SPDX-License-Identifier: BSD-3-Clause
// DCTCP (SIGCOMM'10) in rate form, as the HPCC authors' simulator has it: alpha is the smoothed
// share of marked packets per window; the first mark of a window cuts by alpha / 2, and a window
// without a cut adds a constant. Switches mark everything above one threshold. No slow start.
#include <algorithm>

#include "lib/congestion/manifest.hpp"

namespace weft::congestion {
namespace {

enum : size_t { kGain = 1, kAdditive };
constexpr Parameter kParameters[] = {
    {"min_rate_mbps", "Mb/s", 1000, "HPCC simulator, MIN_RATE", {}, "not in the paper"},
    {"g", "weight of the newest", 1.0 / 16, "DCTCP section 3.3"},
    {"r_ai_mbps",
     "Mb/s",
     615,
     "HPCC simulator, DCTCP_RATE_AI",
     {},
     "one packet per RTT, as in the paper"},
};

struct Dctcp {
  double alpha;
  uint64_t last_update;  // what had been sent when the window began; 0: no ack yet
  uint64_t recovery;     // no second cut until this is acknowledged
  uint32_t marked;       // packets of the window that met ECN
  uint32_t packets;      // of the window, plus one
  bool recovering;
};

void start(State& state, const Preset&) { own<Dctcp>(state) = {.alpha = 1}; }

// At the first acknowledgement beyond the window: alpha, and a new window.
void turn_window(Dctcp& dctcp, const Preset& preset, const Ack& ack) {
  const uint64_t packet = std::max<uint32_t>(ack.packet_bytes, 1);
  uint64_t in_flight = ack.sent;  // the first window counts from the start of the flow
  if (dctcp.last_update != 0) {
    const double share = std::min(1.0, double(dctcp.marked) / dctcp.packets);
    dctcp.alpha = (1 - preset[kGain]) * dctcp.alpha + preset[kGain] * share;
    dctcp.marked = 0;
    in_flight = ack.sent - std::min(ack.sent, ack.acked);
  }
  dctcp.last_update = std::max<uint64_t>(ack.sent, 1);
  dctcp.packets = static_cast<uint32_t>(in_flight / packet + 1);
}

void on_ack(State& state, const Preset& preset, const Ack& ack) {
  Dctcp& dctcp = own<Dctcp>(state);
  dctcp.marked += ack.marked;
  const bool turns = ack.acked > dctcp.last_update;
  if (turns) turn_window(dctcp, preset, ack);
  if (dctcp.recovering && ack.acked > dctcp.recovery) dctcp.recovering = false;
  if (ack.marked != 0 && !dctcp.recovering) {
    state.decision.rate *= 1 - dctcp.alpha / 2;
    dctcp.recovering = true;
    dctcp.recovery = ack.sent;
  }
  if (turns && !dctcp.recovering) state.decision.rate += preset[kAdditive] * 1e6;
}

constexpr Kind kDctcp = {
    .name = "dctcp",
    .what = "DCTCP in rate form: share of marked packets per window",
    .paper = "Alizadeh et al., Data Center TCP (DCTCP), SIGCOMM 2010",
    .signal = Signal::ecn,
    .windowed = true,
    .echoes_marks = true,
    .marking = {.kmin_bytes_per_gbps = 3000, .kmax_bytes_per_gbps = 3000, .pmax = 1},
    .parameters = kParameters,
    .start = start,
    .on_ack = on_ack};

}  // namespace

WEFT_CONTROLLERS(dctcp, &kDctcp);

}  // namespace weft::congestion
