// SPDX-License-Identifier: BSD-3-Clause
// The round trip of a requester, smoothed as RFC 6298 has it, and how long the end of what was sent
// may stay unacknowledged before it is probed (the tail loss probe of RFC 8985). A sample is the
// time from a packet that left an idle queue pair to the first acknowledgement, or any silence that
// was probed. Probes lie within the retransmission timeout, which alone counts as a retry.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "lib/base/check.hpp"
#include "weft/units.hpp"

namespace weft::roce {

class RoundTrip {
 public:
  // A timer of the engine may be so late, and an acknowledgement waits for a turn of the peer.
  static constexpr uint32_t kLeastNs = 8'000;

  bool known() const noexcept { return smoothed_ns_ != 0; }
  void sample(Duration taken) noexcept {
    const auto ns = static_cast<int32_t>(std::clamp<int64_t>(taken.ps / 1000, 1, kMostNs));
    const auto smoothed = static_cast<int32_t>(smoothed_ns_);
    const auto variation = static_cast<int32_t>(variation_ns_);
    const int32_t error = ns - smoothed;
    const bool first = smoothed == 0;
    smoothed_ns_ = static_cast<uint32_t>(first ? ns : std::max(1, smoothed + error / 8));
    variation_ns_ =
        static_cast<uint32_t>(first ? ns / 2 : variation + (std::abs(error) - variation) / 4);
  }
  // How long after the peer answered probe number `probes` leaves, counted from 0. The first
  // eight are equally far apart, as bursts of losses end by packets more than by time, the others
  // back off.
  Duration probe_after(uint8_t probes) const noexcept {
    WEFT_DCHECK(known() && probes < kMostProbes);
    const uint32_t slack = std::max({4 * variation_ns_, smoothed_ns_ / 2, kLeastNs});
    const int64_t times = probes < 8 ? probes + 1 : int64_t{1} << (probes - 4);
    return Duration::from_ns((smoothed_ns_ + slack) * times);
  }
  static constexpr uint8_t kMostProbes = 20;

 private:
  static constexpr int64_t kMostNs = 100'000'000;
  uint32_t smoothed_ns_ = 0;  // 0: no sample yet
  uint32_t variation_ns_ = 0;
};

}  // namespace weft::roce
