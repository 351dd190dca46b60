// SPDX-License-Identifier: BSD-3-Clause
// The state of NSCC and what its events do to it, for the kinds that have it: nscc alone, and
// nscc+rccc beside receiver credits (rccc.cpp).
#pragma once

#include <array>

#include "lib/congestion/controller.hpp"

namespace weft::congestion {

struct Nscc {
  double window;      // bytes
  double increase;    // bytes x bytes that wait for the next adjustment
  double average_ps;  // smoothed queueing delay
  int64_t base_ps;    // the least RTT seen
  int64_t cut_at;     // ps: the last decrease
  int64_t adjusted_at;
  int64_t quick_at;      // ps: quick adapt looks again; 0: not yet
  uint32_t delivered;    // bytes since quick adapt looked
  uint32_t adjusting;    // bytes since the last adjustment
  uint32_t ignored;      // bytes since quick adapt acted
  uint32_t ignore;       // marks are not believed until as many
  uint32_t undisturbed;  // bytes in a row without delay
  bool fast;             // a whole window of them: fast increase
  bool trimmed;          // a NACK since quick adapt acted
};

// Parameters of nscc, in this order; nscc+rccc has those of rccc behind.
enum NsccParameter : size_t {
  kTarget = 1,
  kMostRtts,
  kProportional,
  kFair,
  kEta,
  kFastIncrease,
  kFastBelow,
  kCut,
  kMaxCut,
  kQuickShare,
  kQuickDelay,
  kSmoothing,
  kAdjustPackets,
  kMtu,
  kMss,
  kLeastBase,
  kNsccParameters
};

inline constexpr std::array<Parameter, kNsccParameters> kNsccRows = {{
    {"min_rate_mbps", "Mb/s", 1000, kNoSource, {}, "not used: the least window is one packet"},
    {"target", "base RTTs", 0.75, "uet-htsim, target_Qdelay: queueing delay", Follows::drops,
     "1 in networks that do not trim"},
    {"most_rtts", "BDP", 1.5, "uet-htsim, maximum and initial cwnd"},
    {"proportional", "packets", 4, "uet-htsim, alpha: increase below the target, unmarked"},
    {"fair", "packets", 5, "uet-htsim, fi: increase above the target, unmarked"},
    {"eta", "packets per RTT", 0.15, "uet-htsim, eta: additive increase, always"},
    {"fast", "share of the bytes", 0.25, "uet-htsim, fast_increase: after a window without delay"},
    {"fast_below_us", "us", 1, "uet-htsim, fast_increase: what counts as no delay"},
    {"cut", "factor", 0.8, "uet-htsim, gamma: multiplicative decrease by the excess of the delay"},
    {"max_cut", "share of the window", 0.5,
     "uet-htsim, multiplicative_decrease: of one; one per base RTT"},
    {"quick_share", "of the largest window", 0.125,
     "uet-htsim, qa gate: quick adapt, if no more was delivered"},
    {"quick_delay",
     "targets",
     4,
     "uet-htsim, qa threshold: and the delay is above, or a packet was trimmed",
     {},
     "UEC 1.0 section 3.6.13 has it for networks that do not trim"},
    {"smoothing", "weight of the newest", 0.0125, "uet-htsim, delay EWMA"},
    {"adjust_packets", "packets", 8, "uet-htsim, adjust: the window, every so many or every RTT"},
    {"mtu_bytes", "B", 4150, "uet-htsim, mtu: a full packet on the wire; the least window",
     Follows::packet_bytes},
    {"mss_bytes", "B", 4086, "uet-htsim, mss: its payload", Follows::payload_bytes},
    {"least_base", "base RTTs", 0, kNoSource, Follows::software_hosts,
     "a shorter RTT takes the largest window no further down"},
}};

void nscc_start(Nscc& nscc, State& state, const Preset& preset);
void nscc_on_ack(Nscc& nscc, State& state, const Preset& preset, const Ack& ack);
// `spare_last_hop`: a packet trimmed at the receiver's own link leaves the window alone.
void nscc_on_loss(Nscc& nscc, State& state, const Preset& preset, const Loss& loss,
                  bool spare_last_hop);

}  // namespace weft::congestion
