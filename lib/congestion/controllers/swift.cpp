// SPDX-License-Identifier: BSD-3-Clause
// Swift (SIGCOMM'20): a window that holds the delay at a target. The target is the base RTT, plus
// something per hop, plus more for a flow with a small window, so that many flows share a queue
// that grows with the square root of their number. Below the target the window grows by one packet
// per RTT; above, it shrinks in proportion, at most once per RTT. A window below one packet becomes
// a pace.
//
// MSwift (arXiv 2509.07907) is for packets that are sprayed over many paths: it takes the median of
// the last delays, each of another path as a rule, so that a few slow paths do not hold up the
// flow.
//
// The structure and constants are taken from a simulator that calls its own
// constants guesses, and not checked against the paper's text.
#include <algorithm>
#include <cmath>

#include "lib/base/check.hpp"
#include "lib/congestion/manifest.hpp"

namespace weft::congestion {
namespace {

enum : size_t { kBeta = 1, kMaxCut, kAdditive, kHopUs, kRange, kLeastFs, kMostFs };
constexpr std::string_view kGuess = "that file calls it a guess; not checked against the paper";
constexpr Parameter kParameters[] = {
    {"min_rate_mbps", "Mb/s", 100, kNoSource, {}, "one packet of 1000 B in 80 us"},
    {"beta", "factor", 0.8, "uet-htsim, swift.cpp: multiplicative decrease", {}, kGuess},
    {"max_cut", "share of the window", 0.5, "uet-htsim, swift.cpp: max decrease", {}, kGuess},
    {"additive", "packets per RTT", 1, "uet-htsim, swift.cpp: AI", {}, kGuess},
    {"hop_us", "us", 1, kNoSource, {}, "added to the base RTT for what hosts and hops wait"},
    {"range",
     "x base RTT",
     1,
     "uet-htsim, swift.cpp: fs_range",
     {},
     "5 there, where the base RTT is 20 us"},
    {"fs_least_packets", "packets", 0.1, "uet-htsim, swift.cpp: fs_min_cwnd", {}, kGuess},
    {"fs_most_packets", "packets", 100, "uet-htsim, swift.cpp: fs_max_cwnd", {}, kGuess},
};

struct Swift {
  double window;  // packets
  int64_t last_cut_ps;
  int64_t rtt_ps;  // of the last acknowledgement
  uint32_t packet_bytes;
};

// The delays of as many acknowledgements.
struct Mswift {
  static constexpr uint8_t kSamples = 15;
  Swift swift;  // first: both begin alike
  uint32_t ns[kSamples];
  uint8_t count, next;
};

void start(State& state, const Preset& preset) {
  own<Mswift>(state) = {.swift = {.window = preset.window_bytes / 1000, .packet_bytes = 1000}};
  state.decision.window = std::max<uint64_t>(1, static_cast<uint64_t>(preset.window_bytes));
}

// clamp(alpha / sqrt(window) + beta, 0, range): range at the least window, 0 at the most.
double flow_scaling_ns(const Preset& preset, double window) {
  WEFT_DCHECK(window > 0);
  const double range = preset[kRange] * preset.base_rtt_ns;
  const double at_most = 1 / std::sqrt(std::max(preset[kMostFs], 1e-3));
  const double at_least = 1 / std::sqrt(std::max(preset[kLeastFs], 1e-3));
  if (at_least <= at_most) return 0;
  const double alpha = range / (at_least - at_most);
  return std::clamp(alpha * (1 / std::sqrt(window) - at_most), 0.0, range);
}

bool plausible(Duration rtt) { return rtt.ps > 0 && rtt.ps <= INT64_MAX / 4; }

double delay_ns(const Ack& ack) {
  return double(ack.rtt.ps - std::clamp<int64_t>(ack.service.ps, 0, ack.rtt.ps)) / 1e3;
}

void react(Swift& swift, State& state, const Preset& preset, const Ack& ack, double delay) {
  swift.packet_bytes = std::clamp<uint32_t>(ack.packet_bytes, 64, 65536);
  swift.rtt_ps = ack.rtt.ps;
  const double target =
      preset.base_rtt_ns + preset[kHopUs] * 1000 + flow_scaling_ns(preset, swift.window);
  const double acked = std::min(double(ack.newly_acked) / swift.packet_bytes, 1e3);
  if (delay < target) {
    swift.window += preset[kAdditive] * acked / std::max(swift.window, 1.0);
  } else if (ack.now.ps - swift.last_cut_ps >= ack.rtt.ps) {
    const double cut =
        std::max(1 - preset[kBeta] * (delay - target) / delay, 1 - std::min(preset[kMaxCut], 1.0));
    swift.window *= std::clamp(cut, 0.0, 1.0);
    swift.last_cut_ps = ack.now.ps;
  }
  const double most = preset.window_bytes / swift.packet_bytes;
  const double least = preset.min_rate / preset.line_rate * most;
  swift.window = std::clamp(swift.window, std::min(least, most), most);
  // A window of less than a packet paces one packet per rtt / window.
  const double bits = swift.window * swift.packet_bytes * 8;
  state.decision.rate =
      swift.window >= 1 ? preset.line_rate : preset.clamp(bits * 1e12 / double(ack.rtt.ps));
  state.decision.window = std::max<uint64_t>(
      1, static_cast<uint64_t>(std::max(swift.window, 1.0) * swift.packet_bytes));
}

void on_ack(State& state, const Preset& preset, const Ack& ack) {
  if (plausible(ack.rtt)) react(own<Swift>(state), state, preset, ack, delay_ns(ack));
}

void on_ack_of_many(State& state, const Preset& preset, const Ack& ack) {
  if (!plausible(ack.rtt)) return;
  Mswift& mswift = own<Mswift>(state);
  mswift.ns[mswift.next] = static_cast<uint32_t>(std::min(delay_ns(ack), double(UINT32_MAX)));
  mswift.next = static_cast<uint8_t>((mswift.next + 1) % Mswift::kSamples);
  mswift.count = std::min<uint8_t>(mswift.count + 1, Mswift::kSamples);
  WEFT_DCHECK(mswift.next < Mswift::kSamples && mswift.count <= Mswift::kSamples);
  uint32_t sorted[Mswift::kSamples] = {};
  std::copy_n(mswift.ns, mswift.count, sorted);
  uint32_t* const middle = sorted + mswift.count / 2;
  std::nth_element(sorted, middle, sorted + mswift.count);
  react(mswift.swift, state, preset, ack, *middle);
}

constexpr std::string_view kPaper =
    "Kumar et al., Swift: Delay is Simple and Effective for Congestion Control in the Datacenter, "
    "SIGCOMM 2020";
constexpr Kind kSwift = {.name = "swift",
                         .what = "Swift: a window that holds the delay at a target",
                         .paper = kPaper,
                         .signal = Signal::delay,
                         .parameters = kParameters,
                         .start = start,
                         .on_ack = on_ack};

constexpr Kind kMswift = {.name = "mswift",
                          .what = "Swift for sprayed packets: the median of the last delays",
                          .paper = "MSwift, arXiv 2509.07907",
                          .signal = Signal::delay,
                          .parameters = kParameters,
                          .start = start,
                          .on_ack = on_ack_of_many};

}  // namespace

WEFT_CONTROLLERS(swift, &kSwift, &kMswift);

}  // namespace weft::congestion
