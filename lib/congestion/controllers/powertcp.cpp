// SPDX-License-Identifier: BSD-3-Clause
// PowerTCP (NSDI'22): reacts to power, the product of a link's current (what passes it and what
// joins its queue) and its voltage (queue plus BDP), which sees both how long a queue is and how
// fast it grows. theta-powertcp needs no telemetry: it takes the RTT and its gradient for them.
//
// In rate form, as in the PowerTCP paper (NSDI 2022). An acknowledgement moves the rate towards
// eta x (the rate of one RTT ago) / power + additive, by the weight gamma.
#include <algorithm>

#include "lib/base/check.hpp"
#include "lib/congestion/manifest.hpp"
#include "lib/congestion/telemetry.hpp"

namespace weft::congestion {
namespace {

enum : size_t { kGamma = 1, kAdditive };
constexpr Parameter kParameters[] = {
    {"min_rate_mbps", "Mb/s", 1000, "HPCC simulator, MIN_RATE", {}, "not in the paper"},
    {"gamma", "weight of the newest", 0.9, "PowerTCP section 3.3"},
    {"r_ai_mbps",
     "Mb/s",
     50,
     "HPCC simulator, RATE_AI",
     {},
     "the paper has beta = W_init x (1 - eta) / N, whose N is the network's"},
};

// A flow whose window was cut below its bytes in flight is silent until these have drained; the low
// current that it measures then is due to its own silence, not to free capacity, and would restore
// the whole window before the queue has drained, in a limit cycle. The authors' simulator has this
// bound for theta; a rate at most doubles per RTT.
constexpr double kLeastCurrent = 0.5;  // of the link

struct PowerTcp {
  double previous;       // the rate of one RTT ago
  double power;          // smoothed, 1 is a link just full
  uint64_t last_update;  // what had been sent when `previous` was taken; 0: no ack yet
  int64_t last_rtt_ps;   // theta
  int64_t last_at_ps;    // theta
  HopRecords before;
};

void start(State& state, const Preset& preset) {
  own<PowerTcp>(state) = {.previous = preset.line_rate, .power = 1};
}

// Folds one measurement over `dt` into the average over T.
void smooth(PowerTcp& flow, const Preset& preset, double power, double dt_ns) {
  const double dt = std::min(dt_ns, preset.base_rtt_ns);
  flow.power = (flow.power * (preset.base_rtt_ns - dt) + power * dt) / preset.base_rtt_ns;
  // Never 0, so that a division by it stays finite.
  flow.power = std::max(flow.power, 1e-6);
}

void react(State& state, PowerTcp& flow, const Preset& preset, const Ack& ack) {
  WEFT_DCHECK(flow.power > 0 && flow.previous > 0);
  const double wanted = flow.previous / flow.power + preset[kAdditive] * 1e6;
  const double gamma = std::min(preset[kGamma], 1.0);
  state.decision.rate = preset.clamp(gamma * wanted + (1 - gamma) * state.decision.rate);
  if (ack.acked <= flow.last_update) return;
  flow.previous = state.decision.rate;
  flow.last_update = std::max(flow.last_update, ack.sent);
}

void on_ack(State& state, const Preset& preset, const Ack& ack) {
  PowerTcp& flow = own<PowerTcp>(state);
  const std::span<const IntHop> hops = hops_of(ack);
  if (hops.empty()) return;
  if (flow.last_update == 0 || !flow.before.match(ack, hops)) {
    if (flow.last_update == 0) flow.last_update = ack.sent;
    return flow.before.remember(ack, hops);
  }
  const double rtt = preset.base_rtt_ns;
  const Fullest most = fullest(
      flow.before, hops, preset, [rtt](const IntHop& hop, const HopRecord& before, double tau) {
        const double bytes_per_ns = hop.rate_mbps / 8000.0;
        const double bdp = bytes_per_ns * rtt;
        const double growth = double(hop.queue_bytes) - double(before.queue_bytes);
        const double sent = hop.sent_bytes - before.sent_bytes;
        const double current = std::max(kLeastCurrent * bytes_per_ns, (growth + sent) / tau);
        const double voltage = double(hop.queue_bytes) + bdp;
        return current * voltage / (bytes_per_ns * bdp);
      });
  flow.before.remember(ack, hops);
  if (most.fullness < 0) return;
  smooth(flow, preset, most.fullness, most.tau_ns);
  react(state, flow, preset, ack);
}

// Power from the RTT: (1 + dRTT/dt) x RTT / T, with 5 % above T for what is no queue.
void on_ack_theta(State& state, const Preset& preset, const Ack& ack) {
  PowerTcp& flow = own<PowerTcp>(state);
  if (ack.rtt.ps <= 0 || ack.rtt.ps > INT64_MAX / 4) return;
  const int64_t dt = ack.now.ps - flow.last_at_ps;
  if (flow.last_update == 0 || dt <= 0) {
    if (flow.last_update == 0) flow.last_update = std::max<uint64_t>(ack.sent, 1);
  } else {
    const double gradient = double(ack.rtt.ps - flow.last_rtt_ps) / double(dt);
    const double rtt_ns = double(ack.rtt.ps) / 1000;
    const double power =
        std::max(kLeastCurrent, 1 + gradient) * rtt_ns / (1.05 * preset.base_rtt_ns);
    smooth(flow, preset, power, double(dt) / 1000);
    react(state, flow, preset, ack);
  }
  flow.last_rtt_ps = ack.rtt.ps;
  flow.last_at_ps = ack.now.ps;
}

constexpr std::string_view kPaper =
    "Addanki et al., PowerTCP: Pushing the Performance Limits of Datacenter Networks, NSDI 2022";
constexpr Kind kPowerTcp = {.name = "powertcp",
                            .what = "PowerTCP: telemetry, queue and its growth as one number",
                            .paper = kPaper,
                            .signal = Signal::telemetry,
                            .windowed = true,
                            .moves_pending = true,
                            .parameters = kParameters,
                            .start = start,
                            .on_ack = on_ack};
constexpr Kind kThetaPowerTcp = {.name = "theta-powertcp",
                                 .what = "PowerTCP from the RTT alone",
                                 .paper = kPaper,
                                 .signal = Signal::delay,
                                 .windowed = true,
                                 .moves_pending = true,
                                 .parameters = kParameters,
                                 .start = start,
                                 .on_ack = on_ack_theta};

}  // namespace

WEFT_CONTROLLERS(powertcp, &kPowerTcp, &kThetaPowerTcp);

}  // namespace weft::congestion
