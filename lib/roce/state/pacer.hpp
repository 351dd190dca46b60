// SPDX-License-Identifier: BSD-3-Clause
// Congestion control of what one queue pair sends in bulk: reports to the controller of
// lib/congestion what happened to its SENDs, WRITEs and READ responses, and says when the next
// packet may leave. A queue pair without `cc` has none.
//
// Positions are payload bytes since the start. Each packet of a request solicits an
// acknowledgement, and one may acknowledge many. READ responses are not acknowledged in RoCE: a
// peer that agreed to telemetry reports them (lib/wire/INT.md); without it, a response counts as
// arrived a base RTT after it left. Telemetry of switches comes with acknowledgements and reports
// where the peer agreed to it. Without any, a controller that needs telemetry gets that of the
// queue before our own port.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "lib/congestion/controller.hpp"
#include "lib/roce/state/flight.hpp"
#include "lib/roce/state/transport_names.hpp"
#include "lib/transport/host_queue.hpp"
#include "lib/wire/int_block.hpp"
#include "weft/units.hpp"

namespace weft::roce {

class Pacer {
 public:
  // `preset` and `host_queue` outlive the pacer. A flow that could not send for a while may catch
  // up on `quantum`. `overhead`: bytes of the link that a packet takes besides its payload; none:
  // those of Ethernet. `telemetry`: frames carry it.
  Pacer(const congestion::Preset& preset, HostQueue& host_queue, Duration quantum,
        std::optional<uint32_t> overhead, bool telemetry);

  // The peer may READ: allocates the records of responses.
  void track_responses() { responses_ = std::make_unique<Flight>(); }

  // May a packet leave now?
  bool open(Instant now) const noexcept {
    return next_ <= now && sent() - acked() < controller_.window();
  }
  // It may not: when to try again, if no acknowledgement or report arrives earlier; never() if only
  // one of those can open the window.
  Instant next_send_time(Instant now) noexcept;
  // The controller's timer; never() if it has none.
  Instant deadline() const noexcept { return controller_.next_deadline(); }

  // A packet with `payload` bytes left; `end` is the PSN behind it, `again`: a retransmission.
  // Returns how late it left, if it had to wait for its time; else a negative duration.
  Duration on_sent(Instant now, uint64_t end, uint32_t payload, bool again) noexcept;
  // One that on_sent() counted left again, out of order.
  void on_sent_again(Instant now, uint32_t payload) noexcept { (void)charge(now, payload); }
  // The same for a READ response. One whose PSN is not new is a retransmission.
  Duration on_response_sent(Instant now, Psn end, uint32_t payload) noexcept;
  // The telemetry of an acknowledgement or report; call before on_acknowledged() or on_reported().
  void on_echo(const wire::IntBlock& echo) noexcept;
  // Everything before PSN `una` arrived. False: the controller needs telemetry, and there was none.
  bool on_acknowledged(Instant now, uint64_t una, uint32_t packet_bytes) noexcept;
  // The peer reports that all READ responses before PSN `end` arrived. Returns as above.
  bool on_reported(Instant now, Psn end, uint32_t packet_bytes) noexcept;
  // Counts READ responses as arrived whose report was lost or will not be sent.
  void expire_responses(Instant now, uint32_t packet_bytes) noexcept;
  // Everything from PSN `psn` on will be sent again.
  void on_rewind(uint64_t psn) noexcept;
  void on_loss(Instant now, congestion::Loss::Reason reason) noexcept;
  // Without telemetry a CNP also counts as one packet with an ECN mark.
  void on_cnp(Instant now) noexcept;
  void on_deadline(Instant now) noexcept;
  // Before a packet after a possible pause: runs the timers that expired meanwhile. After a long
  // pause the controller restarts.
  void on_restart(Instant now) noexcept;

  double rate() const noexcept { return controller_.rate(); }  // bits per second
  uint64_t window() const noexcept { return controller_.window(); }
  Duration rtt() const noexcept { return rtt_; }  // of the newest measured packet; 0: none yet
  uint64_t marked() const noexcept { return marked_; }  // packets with an ECN mark

 private:
  bool needs_telemetry() const noexcept {
    return preset_.kind->signal == congestion::Signal::telemetry ||
           preset_.kind->signal == congestion::Signal::digest;
  }
  uint64_t sent() const noexcept {
    return requests_.sent() + (responses_ ? responses_->sent() : 0);
  }
  uint64_t acked() const noexcept {
    return requests_.acked() + (responses_ ? responses_->acked() : 0);
  }
  Duration response_timeout() const noexcept;
  Duration charge(Instant now, uint32_t payload) noexcept;
  HostQueue::Found pass_host_queue(Instant now, uint32_t payload) noexcept;
  bool report(Instant now, const Flight::Record& newest, uint32_t newly, bool assumed,
              uint32_t packet_bytes) noexcept;
  void changed_rate(double before, Instant now) noexcept;

  const congestion::Preset& preset_;
  congestion::Controller controller_;
  HostQueue& host_queue_;
  const Duration quantum_;
  const bool telemetry_;
  const uint32_t header_bytes_;
  Instant next_;          // when the next packet may leave
  Instant acked_at_;      // of the last acknowledgement
  bool waiting_ = false;  // a packet waits for next_
  Flight requests_;
  std::unique_ptr<Flight> responses_;  // null: the peer may not READ
  uint16_t ecn_seen_ = 0;              // the peer's count of packets with an ECN mark
  uint32_t ecn_new_ = 0;               // not reported to the controller yet
  uint64_t marked_ = 0;                // reported to it
  Duration rtt_;
  uint16_t path_ = 0;
  bool echoed_ =
      false;  // path_, hop_count_, hops_, digest_ are of the acknowledgement being processed
  uint8_t digest_ = 0;
  size_t hop_count_ = 0;
  std::array<congestion::IntHop, congestion::kMaxHops> hops_;
};

}  // namespace weft::roce
