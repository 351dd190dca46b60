// SPDX-License-Identifier: BSD-3-Clause
// When the next packet of a queue pair may leave: when its congestion control (Pacer) and its rate
// limit (RateLimiter) permit it. SENDs, WRITEs and READ responses are paced, on RC, UC and UD;
// requests without payload and acknowledgements are not.
#pragma once

#include "lib/roce/state/engine_state.hpp"
#include "lib/transport/frame_builder.hpp"

namespace weft::roce {

// Bytes of an Ethernet link that a packet takes besides BTH to ICRC: preamble, MAC header, UDP, FCS
// and interpacket gap; and the IP header.
inline uint32_t link_overhead(const Path& path) noexcept {
  return 8 + 14 + 8 + 4 + 12 + (path.destination.is_ipv4() ? 20 : 40);
}

inline bool may_leave(const QueuePair& qp, Instant now) noexcept {
  return qp.limiter.open(now) && (qp.req.pacer == nullptr || qp.req.pacer->open(now));
}

// It may not: wakes `qp` when it may.
inline void wait_to_leave(EngineState& engine, QueuePair& qp, Instant now) noexcept {
  WEFT_DCHECK(!may_leave(qp, now));
  const Instant wake =
      qp.limiter.open(now) ? qp.req.pacer->next_send_time(now) : qp.limiter.wait(now);
  if (!wake.is_never()) engine.arm_timer(qp, wake);
}

// A paced packet left, `late` after its time; negative: it did not wait.
inline void count_departure_of(EngineState& engine, Duration late) noexcept {
  if (late.ps < 0) return;
  engine.count_paced_departure(static_cast<uint64_t>(late.ps / 1000));
}

// The packet that `out` finished last is charged to the rate limit of `qp`, and to that of `path`,
// which it takes.
inline void charge_limit(EngineState& engine, QueuePair& qp, const FrameBuilder& out,
                         const Path& path, Rate rate, Instant now) noexcept {
  const uint32_t bytes = out.last_length() + link_overhead(path);
  count_departure_of(engine, qp.limiter.on_sent(now, bytes, rate));
}

}  // namespace weft::roce
