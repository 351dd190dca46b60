// SPDX-License-Identifier: BSD-3-Clause
// The sender of RCCC, alone and beside NSCC's window: credit that is spent by sending and refilled
// by grants. EQDS, its ancestor, differs in its defaults: its speculative credit is a number of
// packets whatever the network, and a grant is one packet.
#include "lib/congestion/rccc.hpp"

#include <algorithm>
#include <array>

#include "lib/base/check.hpp"
#include "lib/congestion/controllers/nscc.hpp"
#include "lib/congestion/manifest.hpp"

namespace weft::congestion {
namespace {

constexpr std::array<Parameter, kRcccParameters> kRows = {{
    {"min_rate_mbps", "Mb/s", 1000, kNoSource, {}, "not used"},
    {"first_rtts", "BDP", 1.5, "uet-htsim, initial credit: speculative; also the most to hold"},
    {"grant_bytes", "B", 16384, "uet-htsim, pull quantum: 4 MTU in one grant"},
    {"grant_share", "share of the link", 0.99,
     "uet-htsim, pull pacer: all grants of a host together"},
}};
// Those of nscc, then those of rccc without its min_rate_mbps.
constexpr size_t kBehind = kNsccRows.size() - 1;
constexpr size_t kBothRows = kBehind + kRows.size();
static_assert(kBothRows <= kMaxParameters);

constexpr std::array<Parameter, kBothRows> both_rows() {
  std::array<Parameter, kBothRows> rows{};
  for (size_t i = 0; i < kNsccRows.size(); ++i) rows[i] = kNsccRows[i];
  for (size_t i = 1; i < kRows.size(); ++i) rows[kBehind + i] = kRows[i];
  return rows;
}
constexpr std::array<Parameter, kBothRows> kBoth = both_rows();

// In the places of rccc's, and the size of a packet.
constexpr size_t kFirstPackets = kFirstRtts, kEqdsMtu = kRcccParameters;
constexpr std::array<Parameter, kEqdsMtu + 1> kEqdsRows = {{
    {"min_rate_mbps", "Mb/s", 1000, kNoSource, {}, "not used"},
    {"first_packets", "packets", 64,
     "uet-htsim, DEFAULT_CWND: speculative credit; also the most to hold"},
    {"grant_bytes", "B", 4096, "uet-htsim, EqdsPullPacer: one packet in one grant"},
    {"grant_share", "share of the link", 0.99,
     "uet-htsim, EqdsPullPacer: all grants of a host together"},
    {"mtu_bytes", "B", 4150, "uet-htsim, EqdsSrc::_mtu: a full packet on the wire",
     Follows::packet_bytes},
}};

double parameter(const Preset& preset, RcccParameter which) {
  const bool behind_nscc = preset.kind->parameters.data() == kBoth.data();
  return preset[which + (behind_nscc ? kBehind : 0)];
}

constexpr int64_t kLargestDebt = int64_t{1} << 40;  // far above any window

struct Rccc {
  int64_t credit;
  bool responded;  // the receiver has answered: no speculative credit any more
};

// The receiver's first answer ends speculation: the remaining speculative credit is dropped.
void end_speculation(Rccc& rccc) {
  if (!rccc.responded) rccc.credit = std::min<int64_t>(rccc.credit, 0);
  rccc.responded = true;
}

void spend(Rccc& rccc, uint32_t bytes) {
  rccc.credit = std::max(rccc.credit - bytes, -kLargestDebt);
}

void refill(Rccc& rccc, const Preset& preset, const Credit& credit) {
  end_speculation(rccc);
  WEFT_DCHECK(rccc.responded && rccc.credit <= most_credit(preset));
  rccc.credit = std::min(rccc.credit + credit.bytes, most_credit(preset));
}

void start(State& state, const Preset& preset) {
  own<Rccc>(state) = {.credit = most_credit(preset), .responded = false};
}
void on_ack(State& state, const Preset&, const Ack&) { end_speculation(own<Rccc>(state)); }
void on_loss(State& state, const Preset&, const Loss& loss) {
  if (loss.reason != Loss::Reason::timeout) end_speculation(own<Rccc>(state));
}
void on_credit(State& state, const Preset& preset, const Credit& credit) {
  refill(own<Rccc>(state), preset, credit);
}
void on_sent(State& state, const Preset&, uint32_t bytes, Instant) {
  spend(own<Rccc>(state), bytes);
}
int64_t credit(const State& state) { return own<Rccc>(state).credit; }

struct Both {
  Nscc nscc;
  Rccc rccc;
};

void both_start(State& state, const Preset& preset) {
  nscc_start(own<Both>(state).nscc, state, preset);
  own<Both>(state).rccc = {.credit = most_credit(preset), .responded = false};
}
void both_on_ack(State& state, const Preset& preset, const Ack& ack) {
  nscc_on_ack(own<Both>(state).nscc, state, preset, ack);
  end_speculation(own<Both>(state).rccc);
}
void both_on_loss(State& state, const Preset& preset, const Loss& loss) {
  nscc_on_loss(own<Both>(state).nscc, state, preset, loss, true);
  if (loss.reason != Loss::Reason::timeout) end_speculation(own<Both>(state).rccc);
}
void both_on_credit(State& state, const Preset& preset, const Credit& credit) {
  refill(own<Both>(state).rccc, preset, credit);
}
void both_on_sent(State& state, const Preset&, uint32_t bytes, Instant) {
  spend(own<Both>(state).rccc, bytes);
}
int64_t both_credit(const State& state) { return own<Both>(state).rccc.credit; }

}  // namespace

int64_t most_credit(const Preset& preset) {
  if (preset.kind->parameters.data() == kEqdsRows.data())
    return static_cast<int64_t>(std::min(preset[kFirstPackets] * preset[kEqdsMtu], 1e15));
  const double bdp = preset.base_rtt_ns * preset.line_rate / 8e9;
  return static_cast<int64_t>(std::min(parameter(preset, kFirstRtts) * bdp, 1e15));
}

CreditPacer::Rules credit_rules(const Preset& preset) {
  return {.bits_per_second = preset.line_rate * parameter(preset, kGrantShare),
          .grant_bytes = static_cast<uint32_t>(
              std::clamp(parameter(preset, kGrantBytes), double(kCreditUnit), 1e9)),
          .most_bytes = static_cast<uint32_t>(std::min<int64_t>(most_credit(preset), 1 << 30))};
}

namespace {

constexpr Kind kRccc = {.name = "rccc",
                        .what = "Ultra Ethernet: credit from the receiver",
                        .paper = "Ultra Ethernet Specification 1.0, section 3.6.14 (RCCC)",
                        .signal = Signal::credit,
                        .sprayed = true,
                        .parameters = kRows,
                        .start = start,
                        .on_ack = on_ack,
                        .on_loss = on_loss,
                        .on_credit = on_credit,
                        .on_sent = on_sent,
                        .credit = credit};

constexpr Kind kEqds = {.name = "eqds",
                        .what = "EQDS: credit from the receiver, packet by packet",
                        .paper =
                            "Olteanu et al., An edge-queued datagram service for all "
                            "datacenter traffic, NSDI 2022",
                        .signal = Signal::credit,
                        .sprayed = true,
                        .parameters = kEqdsRows,
                        .start = start,
                        .on_ack = on_ack,
                        .on_loss = on_loss,
                        .on_credit = on_credit,
                        .on_sent = on_sent,
                        .credit = credit};

constexpr Kind kNsccRccc = {.name = "nscc+rccc",
                            .what = "Ultra Ethernet: nscc's window and rccc's credit",
                            .paper = "Ultra Ethernet Specification 1.0, sections 3.6.13 and 3.6.14",
                            .signal = Signal::delay,
                            .sprayed = true,
                            .parts = {"nscc", "rccc"},
                            .parameters = kBoth,
                            .start = both_start,
                            .on_ack = both_on_ack,
                            .on_loss = both_on_loss,
                            .on_credit = both_on_credit,
                            .on_sent = both_on_sent,
                            .credit = both_credit};

}  // namespace

WEFT_CONTROLLERS(rccc, &kRccc, &kEqds, &kNsccRccc);

}  // namespace weft::congestion
