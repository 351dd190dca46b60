// SPDX-License-Identifier: BSD-3-Clause
// SMaRTT, the ancestor of NSCC: one window for all paths to a peer, from the mark and the round
// trip of each acknowledgement. Unmarked, the window grows by a fair share, and below the target by
// a part of what the round trip leaves to it; marked, it shrinks by a share of itself, and above
// the target by a part of the excess too, but only while enough of the recent packets are marked.
// After a window without mark and delay it grows by whole packets (fast increase). A trimmed or
// lost packet costs its bytes, and once per target the window becomes what was delivered in that
// time (quick adapt).
//
// Structure and constants: the REPS artifact (UecSrc, smartt_*), whose authors
// replaced those of their first submission: they oscillated. It adds 64 B to what was delivered
// for each trimmed packet; here they are not counted.
#include <algorithm>
#include <array>

#include "lib/base/check.hpp"
#include "lib/congestion/manifest.hpp"

namespace weft::congestion {
namespace {

enum SmarttParameter : size_t {
  kTarget = 1,
  kMostRtts,
  kProportional,
  kFair,
  kCut,
  kFairCut,
  kMarkWeight,
  kMarkShare,
  kFastPackets,
  kFastBelow,
  kMtu,
  kParameters
};

constexpr std::array<Parameter, kParameters> kRows = {{
    {"min_rate_mbps", "Mb/s", 1000, kNoSource, {}, "not used: the least window is one packet"},
    {"target", "base RTTs", 1.5, "REPS artifact, target_rtt_scaling_factor: round trip"},
    {"most_rtts", "BDP", 1.5, "REPS artifact, _maxwnd: largest and initial window"},
    {"proportional", "packets", 2,
     "REPS artifact, prop_increase_scaling_factor: below the target, unmarked; one per packet"},
    {"fair", "BDP per RTT", 0.02, "REPS artifact, fair_increase_scaling_factor: unmarked"},
    {"cut", "packets", 1, "REPS artifact, mult_decrease_scaling_factor: above the target, marked"},
    {"fair_cut", "packets per window of one BDP", 0.5,
     "REPS artifact, fair_decrease_scaling_factor: marked"},
    {"mark_weight", "weight of the newest", 0.05, "REPS artifact, exp_avg_alpha: mean of marks"},
    {"mark_share", "mean of marks", 0.3, "REPS artifact, exp_avg_ecn_value: decreases above only"},
    {"fast", "packets", 1, "REPS artifact, fast_increase_scaling_factor: per packet"},
    {"fast_below_us", "us", 1, "REPS artifact, smartt_update_fast_increase_state: no delay"},
    {"mtu_bytes", "B", 4150, "REPS artifact, _mtu: a full packet on the wire; the least window",
     Follows::packet_bytes},
}};

struct Smartt {
  double window;       // bytes
  double marks;        // mean share of marked packets
  double calm_goal;    // fast increase after so many calm bytes: the window at the last sign
  double calm;         // bytes in a row without mark and delay
  int64_t base_ps;     // the least RTT seen
  int64_t quick_at;    // ps: quick adapt looks again; 0: not yet
  uint32_t delivered;  // bytes since quick adapt looked
  uint32_t ignored;    // bytes delivered since quick adapt acted
  uint32_t ignore;     // until as many, marks do not count
  bool fast;           // fast increase goes on
  bool lost;           // a packet was trimmed or lost since quick adapt acted
};

void add(uint32_t& sum, uint64_t bytes) {
  sum = static_cast<uint32_t>(std::min<uint64_t>(sum + bytes, UINT32_MAX));
}

double bdp(const Smartt& smartt, const Preset& preset) {
  return std::max(static_cast<double>(smartt.base_ps) * preset.line_rate / 8e12, 1.0);
}
double target_ps(const Smartt& smartt, const Preset& preset) {
  return preset[kTarget] * static_cast<double>(smartt.base_ps);
}

void publish(Smartt& smartt, State& state, const Preset& preset) {
  WEFT_DCHECK(smartt.base_ps > 0);
  const double least = std::max(preset[kMtu], 1.0);
  const double most = std::max(preset[kMostRtts] * bdp(smartt, preset), least);
  // Written so that a NaN becomes the least window.
  if (!(smartt.window > least)) smartt.window = least;
  if (smartt.window > most) smartt.window = most;
  state.decision.window = static_cast<uint64_t>(smartt.window);
  state.decision.rate = preset.clamp(smartt.window * 8e12 / static_cast<double>(smartt.base_ps));
}

bool ignores_marks(const Smartt& smartt) { return smartt.ignored < smartt.ignore; }

// Looks once per target: after a loss the window becomes what was delivered since the last look,
// and marks are ignored until the bytes in flight, which were sent under the old one, are
// delivered.
void quick_adapt(Smartt& smartt, const Preset& preset, Instant now, uint64_t in_flight) {
  if (ignores_marks(smartt) || now.ps < smartt.quick_at) return;
  if (smartt.lost && smartt.quick_at != 0) {
    smartt.window = smartt.delivered;
    smartt.ignore = smartt.ignored = 0;
    add(smartt.ignore, in_flight);
    smartt.lost = false;
  }
  smartt.delivered = 0;
  smartt.quick_at = now.ps + static_cast<int64_t>(target_ps(smartt, preset));
}

// `packets`: how many this acknowledgement stands for. Each step is that of one, so many times.
void adjust(Smartt& smartt, const Preset& preset, double packets, int64_t rtt, bool marked) {
  const double mtu = preset[kMtu];
  const auto trip = static_cast<double>(rtt);
  const double excess = (trip - target_ps(smartt, preset)) / trip;
  const double share = smartt.window / bdp(smartt, preset);
  if (!marked) {
    const double missing = std::max(-excess, 0.0);
    smartt.window +=
        packets * std::min(preset[kProportional] * missing * mtu * mtu / smartt.window, mtu);
    smartt.window += packets * preset[kFair] * mtu / share;
  } else if (smartt.marks > preset[kMarkShare]) {
    const double cut = excess > 0 ? preset[kCut] * excess * mtu : 0;
    smartt.window -= packets * std::min(cut + preset[kFairCut] * share * mtu, mtu);
  }
}

void note_calm(Smartt& smartt, const Preset& preset, uint32_t bytes, int64_t delay, bool marked) {
  if (!marked && static_cast<double>(delay) <= preset[kFastBelow] * 1e6) {
    smartt.calm += bytes;
    smartt.fast = smartt.fast || smartt.calm > smartt.calm_goal;
    return;
  }
  smartt.calm = 0;
  smartt.calm_goal = smartt.window;
  smartt.fast = false;
}

void start(State& state, const Preset& preset) {
  Smartt& smartt = own<Smartt>(state);
  smartt = {.base_ps = std::max<int64_t>(1, static_cast<int64_t>(preset.base_rtt_ns * 1000 + 0.5))};
  smartt.window = smartt.calm_goal = preset[kMostRtts] * bdp(smartt, preset);
  publish(smartt, state, preset);
}

bool plausible(Duration rtt) { return rtt.ps > 0 && rtt.ps < INT64_MAX / 4; }

void on_ack(State& state, const Preset& preset, const Ack& ack) {
  Smartt& smartt = own<Smartt>(state);
  const bool marked = ack.marked != 0;
  const double packets = ack.newly_acked / std::max(preset[kMtu], 1.0);
  add(smartt.delivered, ack.newly_acked);
  add(smartt.ignored, ack.newly_acked);
  const double weight = std::clamp(preset[kMarkWeight] * packets, 0.0, 1.0);
  smartt.marks += weight * ((marked ? 1.0 : 0.0) - smartt.marks);
  int64_t rtt = smartt.base_ps;
  if (plausible(ack.rtt)) {
    rtt = std::max<int64_t>(1, ack.rtt.ps - std::clamp<int64_t>(ack.service.ps, 0, ack.rtt.ps));
    smartt.base_ps = std::min(smartt.base_ps, rtt);
    note_calm(smartt, preset, ack.newly_acked, rtt - smartt.base_ps, marked);
  }
  quick_adapt(smartt, preset, ack.now, ack.in_flight);
  if (smartt.fast && !ignores_marks(smartt))
    smartt.window += preset[kFastPackets] * ack.newly_acked;
  else if (!smartt.fast && !(marked && ignores_marks(smartt)))
    adjust(smartt, preset, packets, rtt, marked);
  publish(smartt, state, preset);
}

// Without trimming switches a loss that a gap or a time-out shows is treated like a trimmed packet.
void on_loss(State& state, const Preset& preset, const Loss& loss) {
  Smartt& smartt = own<Smartt>(state);
  if (!ignores_marks(smartt)) {
    smartt.window -= loss.bytes;
    smartt.lost = true;
    quick_adapt(smartt, preset, loss.now, loss.in_flight);
  }
  publish(smartt, state, preset);
}

constexpr Kind kSmartt = {.name = "smartt",
                          .what = "SMaRTT: one window over all paths, NSCC's ancestor",
                          .paper =
                              "Bonato et al., SMaRTT-REPS: Sender-based Marked "
                              "Rapidly-adapting Trimmed & Timed Transport with Recycled "
                              "Entropies, arXiv:2404.01630, 2024",
                          .signal = Signal::delay,
                          .sprayed = true,
                          .parameters = kRows,
                          .start = start,
                          .on_ack = on_ack,
                          .on_loss = on_loss};

}  // namespace

WEFT_CONTROLLERS(smartt, &kSmartt);

}  // namespace weft::congestion
