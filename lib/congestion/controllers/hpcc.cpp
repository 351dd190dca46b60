// SPDX-License-Identifier: BSD-3-Clause
// HPCC (SIGCOMM'19, Algorithm 1): every acknowledgement carries what each switch on the path saw,
// from which the sender computes how full the fullest link is, U, and sets its rate so that U
// becomes eta. It reacts to each acknowledgement against a reference rate that moves once per RTT:
// without the reference, 100 acknowledgements of one event would cut 100 times.
//
// In rate form, as in the authors' simulator: rate is the state, the window is W0 x rate / line
// rate. The paper's maxStage of 5 is an erratum for its simulations, which ran with 0.
#include <algorithm>

#include "lib/base/check.hpp"
#include "lib/congestion/controllers/hpcc_reaction.hpp"
#include "lib/congestion/manifest.hpp"
#include "lib/congestion/telemetry.hpp"

namespace weft::congestion {
namespace {

constexpr Parameter kParameters[] = {
    {"min_rate_mbps", "Mb/s", 1000, "HPCC simulator, MIN_RATE", {}, "not in the paper"},
    {"eta", "share of the link", 0.95, "HPCC section 4", {}, "the authors' site recommends 0.99"},
    {"max_stage", "RTTs", 0, "HPCC, erratum on the authors' site", {}, "the paper prints 5"},
    {"r_ai_mbps",
     "Mb/s",
     50,
     "HPCC simulator, RATE_AI",
     {},
     "the paper's W_AI of 80 B per 12.8 us"},
};

struct Hpcc {
  HpccReference reference;
  double utilisation;  // U
  HopRecords before;
};

void start(State& state, const Preset& preset) {
  own<Hpcc>(state) = {.reference = {.rate = preset.line_rate}, .utilisation = 1};
}

// The fullest link's u with its own tau, folded into U: an average over T without a parameter.
// False if there is nothing to compare with.
bool measure(Hpcc& hpcc, const Preset& preset, std::span<const IntHop> hops) {
  const double rtt = preset.base_rtt_ns;
  WEFT_DCHECK(rtt > 0 && hops.size() <= kMaxHops && hpcc.before.count == hops.size());
  const Fullest most = fullest(
      hpcc.before, hops, preset, [rtt](const IntHop& hop, const HopRecord& before, double tau) {
        const double sent = hop.sent_bytes - before.sent_bytes;
        const double queue = std::min(hop.queue_bytes, before.queue_bytes);
        // txRate / B + queue / (B T), as one fraction; bytes x 8000 / ns is Mb/s.
        return (sent * rtt + queue * tau) * 8000 / (tau * rtt * hop.rate_mbps);
      });
  if (most.fullness < 0) return false;
  const double tau = std::min(most.tau_ns, rtt);
  hpcc.utilisation = (hpcc.utilisation * (rtt - tau) + most.fullness * tau) / rtt;
  return true;
}

void on_ack(State& state, const Preset& preset, const Ack& ack) {
  Hpcc& hpcc = own<Hpcc>(state);
  const std::span<const IntHop> hops = hops_of(ack);
  if (hops.empty()) return;
  if (hpcc.reference.last_update == 0 || !hpcc.before.match(ack, hops)) {
    // The first acknowledgement, or another path: nothing to compare with yet.
    if (hpcc.reference.last_update == 0) hpcc.reference.last_update = ack.sent;
    return hpcc.before.remember(ack, hops);
  }
  const bool measured = measure(hpcc, preset, hops);
  hpcc.before.remember(ack, hops);
  if (measured) state.decision.rate = react(hpcc.reference, preset, hpcc.utilisation, ack);
}

constexpr Kind kHpcc = {.name = "hpcc",
                        .what = "HPCC: per-hop telemetry, per-ACK reaction, per-RTT reference",
                        .paper = "Li et al., HPCC: High Precision Congestion Control, SIGCOMM 2019",
                        .signal = Signal::telemetry,
                        .windowed = true,
                        .moves_pending = true,
                        .digest_form = "hpcc-pint",
                        .parameters = kParameters,
                        .start = start,
                        .on_ack = on_ack};

}  // namespace

WEFT_CONTROLLERS(hpcc, &kHpcc);

}  // namespace weft::congestion
