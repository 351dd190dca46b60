// SPDX-License-Identifier: BSD-3-Clause
// HPCC's reaction to a utilisation, however measured: a rate, computed from a
// reference rate that moves once per RTT (HPCC section 3.3). hpcc measures it by per-hop records,
// hpcc-pint from one byte.
#pragma once

#include <algorithm>

#include "lib/congestion/controller.hpp"

namespace weft::congestion {

struct HpccReference {
  double rate;           // Rc, bits per second
  uint64_t last_update;  // what had been sent when it moved last; 0: no acknowledgement yet
  uint8_t stage;         // increases in a row
};

inline double react(HpccReference& reference, const Preset& preset, double utilisation,
                    const Ack& ack) {
  enum : size_t { kEta = 1, kMaxStage, kAdditive };  // parameters of both kinds, in this order
  const bool multiplies = utilisation >= preset[kEta] || reference.stage >= preset[kMaxStage];
  const double additive = preset[kAdditive] * 1e6;
  double rate = reference.rate + additive;
  // U = 0 on an idle path gives infinity, which clamp() takes for line rate.
  if (multiplies) rate = reference.rate / (utilisation / preset[kEta]) + additive;
  rate = preset.clamp(rate);
  if (ack.acked > reference.last_update) {
    reference.rate = rate;
    reference.stage = multiplies ? 0 : static_cast<uint8_t>(std::min(reference.stage + 1, 255));
    reference.last_update = std::max(reference.last_update, ack.sent);
  }
  return rate;
}

}  // namespace weft::congestion
