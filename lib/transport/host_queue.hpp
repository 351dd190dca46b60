// SPDX-License-Identifier: BSD-3-Clause
// The queue before our own port, seen as a hop of telemetry: what would wait before a link of the
// line rate that all paced queue pairs of a device share. A controller that lives on telemetry gets
// it where no switch says anything, so that the flows of one host at least share its line.
//
// Nothing really waits here, so nothing would slow a flow down while the queue drains; hence the
// bytes that count as sent are those that came, not those that such a link would have served.
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

  // A packet that takes `bytes` of the link joins the queue: what it finds there.
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
