// SPDX-License-Identifier: BSD-3-Clause
// What a path's telemetry was at the acknowledgement before, and the fullest of its hops since
// then: the first step of HPCC and of PowerTCP, which differ in what they take for full.
#pragma once

#include <algorithm>
#include <span>

#include "lib/congestion/controller.hpp"

namespace weft::congestion {

struct HopRecord {
  uint32_t time_ns;
  uint32_t sent_bytes;
  uint32_t queue_bytes;
};

// The hops of the acknowledgement before. Plain data: it lives in a controller's State.
struct HopRecords {
  HopRecord hops[kMaxHops];
  uint8_t count;
  uint16_t path;

  // Are these the same hops?
  bool match(const Ack& ack, std::span<const IntHop> now) const noexcept {
    return count == now.size() && path == ack.path;
  }
  void remember(const Ack& ack, std::span<const IntHop> now) noexcept {
    count = static_cast<uint8_t>(now.size());
    path = ack.path;
    for (size_t i = 0; i < now.size(); ++i)
      hops[i] = {now[i].time_ns, now[i].sent_bytes, now[i].queue_bytes};
  }
};

inline std::span<const IntHop> hops_of(const Ack& ack) noexcept {
  return ack.hops.first(std::min(ack.hops.size(), kMaxHops));
}

struct Fullest {
  double fullness = -1;  // negative: there is nothing to compare with
  double tau_ns = 0;     // between that hop's two stamps
};

// The hop with the greatest measure(hop, before, tau_ns), of as many hops as were remembered. No
// more than takes line rate to min_rate counts: otherwise one forged record would dominate the
// average for long. //= threat:A15
template <class Measure>
Fullest fullest(const HopRecords& records, std::span<const IntHop> hops, const Preset& preset,
                Measure measure) noexcept {
  const double most_full = preset.line_rate / preset.clamp(0);
  Fullest most;
  for (size_t i = 0; i < hops.size(); ++i) {
    const HopRecord& before = records.hops[i];
    const uint32_t tau_ns = hops[i].time_ns - before.time_ns;
    // A port stamps two packets at two times, and no port has rate 0: an invalid record is
    // forged, and ignored.
    if (tau_ns == 0 || tau_ns > UINT32_MAX / 2 || hops[i].rate_mbps == 0) continue;
    const double tau = tau_ns;
    const double fullness = std::min(measure(hops[i], before, tau), most_full);
    if (fullness > most.fullness) most = {fullness, tau};
  }
  return most;
}

}  // namespace weft::congestion
