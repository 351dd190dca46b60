// SPDX-License-Identifier: BSD-3-Clause
// NSCC, the sender's control of Ultra Ethernet 1.0: one window for all paths to a peer. An
// acknowledgement is one of four cases, by its mark and its delay: unmarked and fast, the window
// grows in proportion to what is missing to the target; unmarked and slow, by a fair constant;
// marked and slow, it shrinks by the excess of the average delay; marked and fast, only that path
// is full, and the window stays. Quick adapt sets the window to what was delivered in an RTT when
// that was little, which an incast needs in its first RTT.
//
// Bytes in flight are reduced by the byte count in acknowledgements, so the order of arrival does
// not matter. Constants are scaled from 100 Gb/s x 12 us to the network's BDP. Structure and
// constants: those of the UEC simulator (uet-htsim).
#include "lib/congestion/controllers/nscc.hpp"

#include <algorithm>
#include <cmath>

#include "lib/base/check.hpp"
#include "lib/congestion/manifest.hpp"

namespace weft::congestion {
namespace {

constexpr double kReferenceBytes = 150'000;  // BDP of 100 Gb/s x 12 us
constexpr double kReferencePs = 12e6;
constexpr double kLeaveSample = 0.25;  // base RTTs: what an unmarked sample above target counts as

// What the parameters come to in this network.
double scale(const Preset& preset) { return preset.window_bytes / kReferenceBytes; }
int64_t network_ps(const Preset& preset) {
  return static_cast<int64_t>(preset.base_rtt_ns * 1000 + 0.5);
}
int64_t target_ps(const Preset& preset) {
  return static_cast<int64_t>(preset[kTarget] * preset.base_rtt_ns * 1000);
}
double most(const Nscc& nscc, const Preset& preset) {
  const double base_ps = std::max(static_cast<double>(nscc.base_ps),
                                  preset[kLeastBase] * static_cast<double>(network_ps(preset)));
  const double bdp = base_ps * preset.line_rate / 8e12;
  return std::max(preset[kMostRtts] * bdp, preset[kMtu]);
}

void add(uint32_t& sum, uint64_t bytes) {
  sum = static_cast<uint32_t>(std::min<uint64_t>(sum + bytes, UINT32_MAX));
}

void bound(Nscc& nscc, const Preset& preset) {
  // Written so that a NaN becomes the least window.
  const double high = most(nscc, preset);
  if (!(nscc.window > preset[kMtu])) nscc.window = preset[kMtu];
  if (nscc.window > high) nscc.window = high;
}

// The rate, a window per base RTT, is for senders that pace; sprayed flows use the window only.
void publish(Nscc& nscc, State& state, const Preset& preset) {
  bound(nscc, preset);
  WEFT_DCHECK(nscc.base_ps > 0);
  state.decision.window = std::max<uint64_t>(1, static_cast<uint64_t>(nscc.window));
  state.decision.rate = preset.clamp(nscc.window * 8e12 / static_cast<double>(nscc.base_ps));
}

bool plausible(Duration rtt) { return rtt.ps > 0 && rtt.ps < INT64_MAX / 4; }

void smooth(Nscc& nscc, const Preset& preset, int64_t delay, bool marked) {
  double sample = static_cast<double>(delay);
  if (!marked && delay > target_ps(preset))
    sample = kLeaveSample * static_cast<double>(nscc.base_ps);
  const double weight = std::min(preset[kSmoothing], 1.0);
  nscc.average_ps = weight * sample + (1 - weight) * nscc.average_ps;
}

// Quick adapt, at most once per base RTT and target: if little was delivered and a trimmed packet
// or the delay shows congestion, the window becomes the bytes delivered, and marks are ignored
// until the bytes in flight are acknowledged. True if the window must not change otherwise.
bool quick_adapt(Nscc& nscc, const Preset& preset, Instant now, uint64_t in_flight, bool marked,
                 int64_t delay) {
  bool done = false;
  if (nscc.ignored < nscc.ignore && marked) {
    done = true;
  } else if (now.ps > nscc.quick_at) {
    const bool blamed =
        nscc.trimmed ||
        static_cast<double>(delay) > preset[kQuickDelay] * static_cast<double>(target_ps(preset));
    if (nscc.quick_at != 0 && blamed && nscc.delivered < preset[kQuickShare] * most(nscc, preset)) {
      nscc.window = nscc.delivered;
      bound(nscc, preset);
      nscc.ignore = 0;
      add(nscc.ignore, in_flight);
      nscc.ignored = 0;
      nscc.trimmed = false;
      done = true;
    }
    nscc.delivered = 0;
    nscc.quick_at = now.ps + nscc.base_ps + target_ps(preset);
  }
  if (done) {
    nscc.increase = 0;
    nscc.adjusting = 0;
  }
  return done;
}

// Unmarked and below the target.
void increase_in_proportion(Nscc& nscc, const Preset& preset, uint32_t bytes, int64_t delay) {
  if (static_cast<double>(delay) < preset[kFastBelow] * 1e6) {
    add(nscc.undisturbed, bytes);
    nscc.fast = nscc.fast || nscc.undisturbed > nscc.window;
    if (nscc.fast) {
      nscc.window += preset[kFastIncrease] * scale(preset) * bytes;
      return;
    }
  } else {
    nscc.undisturbed = 0;
    nscc.fast = false;
  }
  // alpha = 4 mss a b / target with b = target / 12 us.
  const double alpha = preset[kProportional] * preset[kMss] * scale(preset) / kReferencePs;
  nscc.increase += alpha * bytes * static_cast<double>(target_ps(preset) - delay);
}

void decrease(Nscc& nscc, const Preset& preset, Instant now) {
  nscc.fast = false;
  nscc.undisturbed = 0;
  const auto target = static_cast<double>(target_ps(preset));
  if (nscc.average_ps <= target || now.ps - nscc.cut_at <= nscc.base_ps) return;
  const double excess = (nscc.average_ps - target) / nscc.average_ps;
  nscc.window *= std::max({1 - preset[kCut] * excess, 1 - preset[kMaxCut], 0.0});
  bound(nscc, preset);
  nscc.cut_at = now.ps;
}

// Applies the accumulated increase every few packets: the window grows by increase / window.
void adjust(Nscc& nscc, const Preset& preset, Instant now) {
  const int64_t period = network_ps(preset);
  const int64_t since = now.ps - nscc.adjusted_at;
  if (nscc.adjusting <= preset[kAdjustPackets] * preset[kMtu] && since <= period) return;
  WEFT_DCHECK(nscc.window > 0);
  nscc.window += nscc.increase / nscc.window;
  if (since >= period) {
    nscc.window += preset[kEta] * preset[kMss] * scale(preset);
    nscc.adjusted_at = now.ps;
  }
  nscc.increase = 0;
  nscc.adjusting = 0;
}

void start(State& state, const Preset& preset) { nscc_start(own<Nscc>(state), state, preset); }
void on_ack(State& state, const Preset& preset, const Ack& ack) {
  nscc_on_ack(own<Nscc>(state), state, preset, ack);
}
void on_loss(State& state, const Preset& preset, const Loss& loss) {
  nscc_on_loss(own<Nscc>(state), state, preset, loss, false);
}

}  // namespace

void nscc_start(Nscc& nscc, State& state, const Preset& preset) {
  nscc = {.base_ps = network_ps(preset)};
  nscc.window = most(nscc, preset);
  publish(nscc, state, preset);
}

void nscc_on_ack(Nscc& nscc, State& state, const Preset& preset, const Ack& ack) {
  add(nscc.delivered, ack.newly_acked);
  add(nscc.adjusting, ack.newly_acked);
  add(nscc.ignored, ack.newly_acked);
  auto delay = static_cast<int64_t>(nscc.average_ps);
  if (plausible(ack.rtt)) {
    const int64_t rtt =
        std::max<int64_t>(1, ack.rtt.ps - std::clamp<int64_t>(ack.service.ps, 0, ack.rtt.ps));
    nscc.base_ps = std::min(nscc.base_ps, rtt);
    delay = rtt - nscc.base_ps;
    smooth(nscc, preset, delay, ack.marked);
  }
  if (quick_adapt(nscc, preset, ack.now, ack.in_flight, ack.marked, delay))
    return publish(nscc, state, preset);
  const bool slow = delay >= target_ps(preset);
  if (!ack.marked && slow)
    nscc.increase += preset[kFair] * preset[kMss] * scale(preset) * ack.newly_acked;
  else if (!ack.marked)
    increase_in_proportion(nscc, preset, ack.newly_acked, delay);
  else if (slow)
    decrease(nscc, preset, ack.now);
  bound(nscc, preset);
  adjust(nscc, preset, ack.now);
  publish(nscc, state, preset);
}

void nscc_on_loss(Nscc& nscc, State& state, const Preset& preset, const Loss& loss,
                  bool spare_last_hop) {
  if (loss.reason != Loss::Reason::trimmed) {
    nscc.window -= loss.bytes;
    return publish(nscc, state, preset);
  }
  add(nscc.ignored, loss.bytes);
  if (plausible(loss.rtt)) nscc.base_ps = std::min(nscc.base_ps, loss.rtt.ps);
  smooth(nscc, preset, network_ps(preset), true);  // a NACK counts as one RTT of delay
  nscc.trimmed = true;
  const bool adapted = quick_adapt(nscc, preset, loss.now, loss.in_flight, true, 0);
  if (!adapted && !(spare_last_hop && loss.last_hop)) nscc.window -= loss.bytes;
  publish(nscc, state, preset);
}

namespace {

constexpr Kind kNscc = {.name = "nscc",
                        .what = "Ultra Ethernet: one window over all paths, by marks and delay",
                        .paper = "Ultra Ethernet Specification 1.0, section 3.6.13 (NSCC)",
                        .signal = Signal::delay,
                        .sprayed = true,
                        .parameters = kNsccRows,
                        .start = start,
                        .on_ack = on_ack,
                        .on_loss = on_loss};

}  // namespace

WEFT_CONTROLLERS(nscc, &kNscc);

}  // namespace weft::congestion
