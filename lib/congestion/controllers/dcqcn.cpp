// SPDX-License-Identifier: BSD-3-Clause
// DCQCN (SIGCOMM'15) as three presets of one machine: the paper's, a NIC vendor's, and that of the
// HPCC authors' simulator. They differ so much in their time constants that "DCQCN" without the
// preset is ambiguous.
//
// The sender keeps a current and a target rate and alpha, an estimate of how congested the path is.
// A CNP cuts the current rate by alpha / 2; without CNPs the rate climbs back: halfway to the
// target (fast recovery), then with the target raised by R_AI, then by R_HAI.
//
// The paper cuts on the CNP itself. NICs check every few microseconds whether one has arrived since
// the last check. Alpha's periods are applied when alpha is needed, not by a timer each: only alpha
// changes at them, so a flow without CNPs needs no events.
#include <algorithm>

#include "lib/base/check.hpp"
#include "lib/congestion/manifest.hpp"

namespace weft::congestion {
namespace {

enum : size_t {
  kGain = 1,
  kInitialAlpha,
  kAlphaPeriod,
  kDecreasePeriod,
  kIncreasePeriod,
  kByteReset,
  kStages,
  kAdditive,
  kHyper,
  kMaxCut,
  kClampTarget,
  kFirstCnp,
  kCnpInterval,
};

constexpr std::string_view kSecondHand = "second hand: as the simulator isekai has it";
constexpr Parameter kPaper[] = {
    {"min_rate_mbps",
     "Mb/s",
     10,
     kNoSource,
     {},
     "the paper gives none; small enough for a 60-to-1 incast"},
    {"g", "weight", 1.0 / 256, "DCQCN section 5"},
    {"initial_alpha", "share", 1, "DCQCN section 3.1"},
    {"alpha_period_us", "us", 55, "DCQCN section 3.1"},
    {"decrease_period_us", "us; 0: on each CNP", 0, "DCQCN section 3.1"},
    {"increase_period_us", "us", 55, "DCQCN section 5.2"},
    {"byte_reset", "bytes; 0: no byte counter", 10e6, "DCQCN section 5.2"},
    {"stages", "increases of fast recovery", 5, "DCQCN section 3.1"},
    {"r_ai_mbps", "Mb/s", 40, "DCQCN section 5.2"},
    {"r_hai_mbps", "Mb/s", 400, kNoSource, {}, "10 x r_ai as in QCN; the paper does not tune it"},
    {"max_cut",
     "share of the rate",
     0.5,
     "DCQCN section 3.1",
     {},
     "alpha / 2, and alpha is at most 1"},
    {"clamp_target", "1: target = rate at each cut; 0: after an increase", 1, "DCQCN section 3.1"},
    {"first_cnp_rate",
     "share of the rate; 0: an ordinary CNP",
     0,
     "DCQCN section 3.1",
     {},
     "the first CNP cuts as all others"},
    {"cnp_interval_us", "us; the receiver's", 50, "DCQCN section 3.1"},
};
constexpr Parameter kNic[] = {
    {"min_rate_mbps", "Mb/s", 1, "mlx5 driver, rpg_min_rate", {}, kSecondHand},
    {"g", "weight", 5.0 / 1024, "mlx5 driver, dce_tcp_g 1019", {}, kSecondHand},
    {"initial_alpha", "share", 1023.0 / 1024, "mlx5 driver, initial_alpha_value", {}, kSecondHand},
    {"alpha_period_us", "us", 1, "mlx5 driver, dce_tcp_rtt", {}, kSecondHand},
    {"decrease_period_us",
     "us; 0: on each CNP",
     4,
     "mlx5 driver, rate_reduce_monitor_period",
     {},
     kSecondHand},
    {"increase_period_us", "us", 300, "mlx5 driver, rpg_time_reset", {}, kSecondHand},
    {"byte_reset",
     "bytes; 0: no byte counter",
     32767 * 64.0,
     "mlx5 driver, rpg_byte_reset",
     {},
     "taken as units of 64 B; its unit is not verified"},
    {"stages", "increases of fast recovery", 1, "mlx5 driver, rpg_threshold", {}, kSecondHand},
    {"r_ai_mbps", "Mb/s", 20, "mlx5 driver, rpg_ai_rate", {}, "5 per 25G, here at 100G"},
    {"r_hai_mbps", "Mb/s", 200, "mlx5 driver, rpg_hai_rate", {}, "50 per 25G, here at 100G"},
    {"max_cut", "share of the rate", 0.5, "mlx5 driver, rpg_min_dec_fac 50 %", {}, kSecondHand},
    {"clamp_target",
     "1: target = rate at each cut; 0: after an increase",
     0,
     "mlx5 driver, clamp_tgt_rate 0",
     {},
     kSecondHand},
    {"first_cnp_rate",
     "share of the rate; 0: an ordinary CNP",
     0.85,
     "mlx5 driver, rate_to_set_on_first_cnp",
     {},
     "85 Gb/s in isekai, as a share"},
    {"cnp_interval_us",
     "us; the receiver's",
     4,
     "mlx5 driver, min_time_between_cnps",
     {},
     kSecondHand},
};
constexpr Parameter kHpccsim[] = {
    {"min_rate_mbps", "Mb/s", 1000, "HPCC simulator, MIN_RATE"},
    {"g", "weight", 1.0 / 256, "HPCC simulator, EWMA_GAIN"},
    {"initial_alpha", "share", 1, "HPCC simulator, rdma-hw.cc", {}, "set at the first CNP"},
    {"alpha_period_us", "us", 1, "HPCC simulator, ALPHA_RESUME_INTERVAL"},
    {"decrease_period_us", "us; 0: on each CNP", 4, "HPCC simulator, RATE_DECREASE_INTERVAL"},
    {"increase_period_us", "us", 300, "HPCC simulator, RP_TIMER"},
    {"byte_reset", "bytes; 0: no byte counter", 0, "HPCC simulator, rdma-hw.cc", {}, "it has none"},
    {"stages", "increases of fast recovery", 1, "HPCC simulator, FAST_RECOVERY_TIMES"},
    {"r_ai_mbps", "Mb/s", 20, "HPCC simulator, RATE_AI", {}, "at 100G"},
    {"r_hai_mbps", "Mb/s", 200, "HPCC simulator, RATE_HAI", {}, "at 100G"},
    {"max_cut",
     "share of the rate",
     0.5,
     "HPCC simulator, rdma-hw.cc",
     {},
     "alpha / 2, and alpha is at most 1"},
    {"clamp_target", "1: target = rate at each cut; 0: after an increase", 0,
     "HPCC simulator, CLAMP_TARGET_RATE"},
    {"first_cnp_rate",
     "share of the rate; 0: an ordinary CNP",
     1,
     "HPCC simulator, rdma-hw.cc",
     {},
     "the rate stays, timers are armed"},
    {"cnp_interval_us",
     "us; the receiver's",
     0,
     "HPCC simulator, rdma-hw.cc",
     {},
     "a bit in the ACK of every marked packet"},
};

struct Dcqcn {
  double target;
  double alpha;
  int64_t alpha_at;     // ps: end of the next period that is not applied; 0: no CNP yet
  int64_t decrease_at;  // ps: a look that no CNP may precede any more
  int64_t increase_at;  // ps: the increase timer; never() if not running
  uint64_t bytes;       // since the byte counter's last overflow
  uint16_t timer_stage;
  uint16_t byte_stage;
  bool cnp_for_alpha;
  bool cnp_for_decrease;
};

int64_t period(const Preset& preset, size_t parameter) {
  // Never zero, so that time moves on.
  return std::max<int64_t>(1, static_cast<int64_t>(preset[parameter] * 1e6));
}

void start(State& state, const Preset& preset) {
  own<Dcqcn>(state) = {.target = preset.line_rate,
                       .alpha = preset[kInitialAlpha],
                       .increase_at = Instant::never().ps};
}

// The deadline: the next look if a CNP waits for it, and the increase timer.
void arm(State& state, const Dcqcn& dcqcn) {
  const int64_t look = dcqcn.cnp_for_decrease ? dcqcn.decrease_at : Instant::never().ps;
  state.decision.deadline = Instant{std::min(look, dcqcn.increase_at)};
}

// Applies to alpha all periods that end before `now`. Only the first one can have seen a CNP. A
// flow that was quiet for long has no alpha left, so the walk ends when it vanishes.
void update_alpha(Dcqcn& dcqcn, const Preset& preset, int64_t now) {
  if (dcqcn.alpha_at == 0 || dcqcn.alpha_at >= now) return;
  const int64_t step = period(preset, kAlphaPeriod);
  const double g = preset[kGain];
  int64_t periods = (now - 1 - dcqcn.alpha_at) / step + 1;
  dcqcn.alpha_at += periods * step;
  if (dcqcn.cnp_for_alpha) {
    dcqcn.alpha = (1 - g) * dcqcn.alpha + g;
    dcqcn.cnp_for_alpha = false;
    --periods;
  }
  WEFT_DCHECK(periods >= 0 && dcqcn.alpha_at >= now);
  for (; periods > 0 && dcqcn.alpha > 1e-12; --periods) dcqcn.alpha *= 1 - g;
}

void cut(State& state, Dcqcn& dcqcn, const Preset& preset, int64_t now) {
  const bool increased = dcqcn.timer_stage != 0 || dcqcn.byte_stage != 0;
  if (preset[kClampTarget] != 0 || increased) dcqcn.target = state.decision.rate;
  WEFT_DCHECK(dcqcn.alpha >= 0);
  const double share = std::min(dcqcn.alpha / 2, preset[kMaxCut]);
  state.decision.rate = preset.clamp(state.decision.rate * (1 - share));
  dcqcn.timer_stage = 0;
  dcqcn.byte_stage = 0;
  dcqcn.bytes = 0;
  dcqcn.increase_at = now + period(preset, kIncreasePeriod);
}

// One period of the timer or of the byte counter has just been counted in its stage. With both
// counters (the paper): fast recovery while the larger is at most F, hyper when both are beyond.
// With the timer alone (the simulator): additive exactly once, then hyper.
void increase(State& state, Dcqcn& dcqcn, const Preset& preset) {
  const double stages = preset[kStages];
  const bool both = preset[kByteReset] > 0;
  const double most = std::max(dcqcn.timer_stage, dcqcn.byte_stage);
  const double least = both ? std::min(dcqcn.timer_stage, dcqcn.byte_stage) : most - 1;
  if (most > stages) {
    const double hyper = preset[kHyper] * 1e6 * (both ? least - stages : 1);
    dcqcn.target += least > stages ? hyper : preset[kAdditive] * 1e6;
    dcqcn.target = std::min(dcqcn.target, preset.line_rate);
  }
  state.decision.rate = state.decision.rate / 2 + dcqcn.target / 2;
}

uint16_t next_stage(uint16_t stage) { return static_cast<uint16_t>(std::min(stage + 1, 65535)); }

// The first CNP of a flow, where it is special: it sets the rate and starts the periods; the next
// look still counts it (rdma-hw.cc), alpha does not.
void first_cnp(State& state, Dcqcn& dcqcn, const Preset& preset, int64_t now) {
  dcqcn.alpha = preset[kInitialAlpha];
  dcqcn.alpha_at = now + period(preset, kAlphaPeriod);
  // 1 ns behind alpha's period, so that a look always sees alpha up to date.
  dcqcn.decrease_at = now + period(preset, kDecreasePeriod) + 1000;
  dcqcn.cnp_for_decrease = true;
  state.decision.rate = preset.clamp(state.decision.rate * preset[kFirstCnp]);
  dcqcn.target = state.decision.rate;
}

void on_cnp_periodic(State& state, Dcqcn& dcqcn, const Preset& preset, int64_t now) {
  if (dcqcn.alpha_at == 0) {
    if (preset[kFirstCnp] > 0) return first_cnp(state, dcqcn, preset, now);
    dcqcn.alpha_at = now + period(preset, kAlphaPeriod);
    dcqcn.decrease_at = now + period(preset, kDecreasePeriod) + 1000;
  }
  update_alpha(dcqcn, preset, now);
  dcqcn.cnp_for_alpha = true;
  if (!dcqcn.cnp_for_decrease && dcqcn.decrease_at <= now) {
    // Looks happened while nothing came; the next is on the same grid.
    const int64_t step = period(preset, kDecreasePeriod);
    dcqcn.decrease_at += ((now - dcqcn.decrease_at) / step + 1) * step;
  }
  dcqcn.cnp_for_decrease = true;
}

// The paper's: cut at once, then alpha rises and its period restarts.
void on_cnp_at_once(State& state, Dcqcn& dcqcn, const Preset& preset, int64_t now) {
  update_alpha(dcqcn, preset, now);
  cut(state, dcqcn, preset, now);
  const double g = preset[kGain];
  dcqcn.alpha = (1 - g) * dcqcn.alpha + g;
  dcqcn.alpha_at = now + period(preset, kAlphaPeriod);
}

void on_cnp(State& state, const Preset& preset, Instant now) {
  Dcqcn& dcqcn = own<Dcqcn>(state);
  if (preset[kDecreasePeriod] > 0)
    on_cnp_periodic(state, dcqcn, preset, now.ps);
  else
    on_cnp_at_once(state, dcqcn, preset, now.ps);
  arm(state, dcqcn);
}

void on_deadline(State& state, const Preset& preset, Instant now) {
  Dcqcn& dcqcn = own<Dcqcn>(state);
  if (dcqcn.increase_at <= now.ps) {
    dcqcn.timer_stage = next_stage(dcqcn.timer_stage);
    increase(state, dcqcn, preset);
    dcqcn.increase_at = now.ps + period(preset, kIncreasePeriod);
  }
  if (dcqcn.cnp_for_decrease && dcqcn.decrease_at <= now.ps) {
    update_alpha(dcqcn, preset, now.ps);
    dcqcn.cnp_for_decrease = false;
    dcqcn.decrease_at += period(preset, kDecreasePeriod);
    cut(state, dcqcn, preset, now.ps);
  }
  arm(state, dcqcn);
}

// The byte counter.
void on_sent(State& state, const Preset& preset, uint32_t bytes, Instant) {
  Dcqcn& dcqcn = own<Dcqcn>(state);
  if (preset[kByteReset] <= 0 || dcqcn.alpha_at == 0) return;
  dcqcn.bytes += bytes;
  if (static_cast<double>(dcqcn.bytes) < preset[kByteReset]) return;
  dcqcn.bytes = 0;
  dcqcn.byte_stage = next_stage(dcqcn.byte_stage);
  increase(state, dcqcn, preset);
}

constexpr Kind make_kind(std::string_view name, std::string_view what,
                         std::span<const Parameter> parameters) {
  return {.name = name,
          .what = what,
          .paper = "Zhu et al., Congestion Control for Large-Scale RDMA Deployments, SIGCOMM 2015",
          .signal = Signal::ecn,
          .cnp_interval = kCnpInterval,
          .parameters = parameters,
          .start = start,
          .on_cnp = on_cnp,
          .on_sent = on_sent,
          .on_deadline = on_deadline};
}

constexpr Kind kDcqcnPaper =
    make_kind("dcqcn-paper", "DCQCN with the paper's constants (40G)", kPaper);
constexpr Kind kDcqcnNic =
    make_kind("dcqcn-nic", "DCQCN with a NIC vendor's defaults (100G)", kNic);
constexpr Kind kDcqcnHpccsim =
    make_kind("dcqcn-hpccsim", "DCQCN as in the HPCC authors' simulator (100G)", kHpccsim);

}  // namespace

WEFT_CONTROLLERS(dcqcn, &kDcqcnPaper, &kDcqcnNic, &kDcqcnHpccsim);

}  // namespace weft::congestion
