// SPDX-License-Identifier: BSD-3-Clause
// A virtual queue before the local port, as a hop of telemetry: the queue of a link of the line
// rate that all paced queue pairs of a device share. It gives controllers that need telemetry a
// signal where no switch provides one, so that at least the flows of one host share its line
// fairly.
//
// Packets do not wait here, so a flow would not be slowed down while the queue drains. Therefore
// sent_bytes counts bytes that arrived, not bytes that such a link would have served.
#pragma once

#include <algorithm>
#include <cstdint>

#include "lib/base/check.hpp"
#include "lib/congestion/digest.hpp"
#include "weft/units.hpp"

namespace weft::transport {

class HostQueue {
 public:
  struct Found {
    congestion::IntHop hop;
    uint8_t digest = 0;
  };

  // `line_rate` in bits per second; `rtt_ns`: T of the digest.
  HostQueue(double line_rate, double rtt_ns) noexcept
      : rate_mbps_(static_cast<uint32_t>(std::clamp(line_rate / 1e6, 1.0, 4e9))),
        ps_per_byte_(8e12 / line_rate),
        rtt_ns_(rtt_ns) {
    WEFT_DCHECK(line_rate > 0 && rtt_ns > 0);
  }

  // Enqueues a packet of `bytes` on the link; returns the state of the queue before it.
  Found pass(Instant now, uint32_t bytes) noexcept {
    const Instant begin = std::max(now, free_at_);
    const auto waiting = static_cast<double>((begin - now).ps);
    const congestion::IntHop hop{rate_mbps_, static_cast<uint32_t>(now.ps / 1000), sent_bytes_,
                                 static_cast<uint32_t>(std::min(waiting / ps_per_byte_, 4e9))};
    free_at_ = begin + Duration{static_cast<int64_t>(bytes * ps_per_byte_)};
    WEFT_DCHECK(waiting >= 0 && free_at_ >= now);
    sent_bytes_ += bytes;
    return {hop, congestion::encode_digest(meter_.pass(hop, rtt_ns_), 0.5)};
  }

 private:
  uint32_t rate_mbps_;
  double ps_per_byte_;
  double rtt_ns_;
  Instant free_at_;
  uint32_t sent_bytes_ = 0;  // wraps, as in a packet
  congestion::DigestMeter meter_;
};

}  // namespace weft::transport
