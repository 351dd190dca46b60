// SPDX-License-Identifier: BSD-3-Clause
// HPCC over PINT (SIGCOMM'20, section 4.3 and 6.1): each switch averages its own utilisation, and a
// packet carries one byte, the code of the largest on its path. The sender decodes it and reacts as
// hpcc does, without an average of its own. The form of HPCC for sprayed packets too, where two
// acknowledgements seldom are of the same path.
#include "lib/congestion/controllers/hpcc_reaction.hpp"
#include "lib/congestion/digest.hpp"
#include "lib/congestion/manifest.hpp"

namespace weft::congestion {
namespace {

constexpr Parameter kParameters[] = {
    {"min_rate_mbps", "Mb/s", 1000, "HPCC simulator, MIN_RATE", {}, "not in the paper"},
    {"eta", "share of the link", 0.95, "HPCC section 4", {}, "the authors' site recommends 0.99"},
    {"max_stage",
     "RTTs",
     0,
     "PINT section 6.1",
     {},
     "as the erratum of HPCC, whose paper prints 5"},
    {"r_ai_mbps",
     "Mb/s",
     50,
     "HPCC simulator, RATE_AI",
     {},
     "the paper's W_AI of 80 B per 12.8 us"},
};

void start(State& state, const Preset& preset) {
  own<HpccReference>(state) = {.rate = preset.line_rate};
}

void on_ack(State& state, const Preset& preset, const Ack& ack) {
  HpccReference& reference = own<HpccReference>(state);
  if (ack.digest == 0) return;  // no switch on the path writes digests
  if (reference.last_update == 0) {
    reference.last_update = ack.sent;
    return;
  }
  state.decision.rate = react(reference, preset, decode_digest(ack.digest), ack);
}

// What a switch cut or dropped found a queue that was full. A cut one may bring the digest of that,
// an average that may not have noticed yet; a dropped packet carries none: as if one round trip's
// worth waited before a busy link. HPCC itself assumes a network that loses nothing.
void on_loss(State& state, const Preset& preset, const Loss& loss) {
  constexpr double kFull = 2;
  HpccReference& reference = own<HpccReference>(state);
  if (loss.reason == Loss::Reason::timeout) return;  // as likely a path that is dead
  Ack ack;
  ack.acked = loss.acked;
  ack.sent = loss.sent;
  const double found = loss.digest != 0 ? std::max(1.0, decode_digest(loss.digest)) : kFull;
  state.decision.rate = react(reference, preset, found, ack);
}

constexpr Kind kHpccPint = {
    .name = "hpcc-pint",
    .what = "HPCC with a one-byte digest of the fullest link",
    .paper = "Ben Basat et al., PINT: Probabilistic In-band Network Telemetry, SIGCOMM 2020",
    .signal = Signal::digest,
    .windowed = true,
    .moves_pending = true,
    .parameters = kParameters,
    .start = start,
    .on_ack = on_ack,
    .on_loss = on_loss};

}  // namespace

WEFT_CONTROLLERS(hpcc_pint, &kHpccPint);

}  // namespace weft::congestion
