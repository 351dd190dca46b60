// SPDX-License-Identifier: BSD-3-Clause
// Congestion control of what one queue pair sends in bulk: tells the controller of lib/congestion
// what happened to its SENDs, WRITEs and READ responses, and says when the next packet may leave. A
// queue pair without `cc` has none.
//
// Positions are payload bytes since the start. Each packet of a request asks for an
// acknowledgement, which may stand for many. READ responses are not acknowledged in RoCE: a peer
// that agreed to telemetry reports them (lib/wire/INT.md); of others, a response counts as arrived
// when it left a base RTT ago. What switches said of the way comes with either where the peer
// agreed. Where nobody says anything, a controller that lives on it gets the queue before our own
// port.
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

namespace weft::roce::rc {

class Pacer {
 public:
  // `preset` and `own_queue` outlive the pacer. A flow that could not send for a while may catch up
  // on `quantum`. `overhead`: what a packet takes of the link besides its payload; none: what it
  // takes of Ethernet. `telemetry`: frames carry it.
  Pacer(const congestion::Preset& preset, HostQueue& own_queue, Duration quantum,
        std::optional<uint32_t> overhead, bool telemetry);

  // The peer may READ: makes room for what is known of responses.
  void expect_reads() { responses_ = std::make_unique<Flight>(); }

  // May a packet leave now?
  bool open(Instant now) const noexcept {
    return next_ <= now && sent() - acked() < controller_.window();
  }
  // It may not: when to look again, if no acknowledgement or report comes before; never() if that
  // decides.
  Instant held(Instant now) noexcept;
  // The controller's own time to act; never() if it has none.
  Instant deadline() const noexcept { return controller_.next_deadline(); }

  // A packet with `payload` bytes left whose successor has the PSN `end`. How late it was, if it
  // had to wait for its time; else negative.
  Duration on_sent(Instant now, uint64_t end, uint32_t payload, bool again) noexcept;
  // The same of a READ response. One that goes back in PSNs is sent again.
  Duration on_response_sent(Instant now, Psn end, uint32_t payload) noexcept;
  // What the acknowledgement that comes now carries of the way; before on_acknowledged().
  void on_echo(const wire::IntBlock& echo) noexcept;
  // Everything before PSN `una` has arrived. False: the controller wants telemetry, and there was
  // none.
  bool on_acknowledged(Instant now, uint64_t una, uint32_t packet_bytes) noexcept;
  // The peer reports that all READ responses before PSN `end` have arrived. As above.
  bool on_reported(Instant now, Psn end, uint32_t packet_bytes) noexcept;
  // Counts READ responses as arrived of which no report will come.
  void apply_rate(Instant now, uint32_t packet_bytes) noexcept;
  // Everything from PSN `psn` on will be sent again.
  void on_rewind(uint64_t psn) noexcept;
  void on_loss(Instant now, congestion::Loss::Reason reason) noexcept;
  // Without telemetry it also stands for a packet that met ECN.
  void on_cnp(Instant now) noexcept;
  void on_deadline(Instant now) noexcept;
  // A packet after what may be a pause: deadlines that passed meanwhile are made up for. After a
  // long pause the flow starts anew.
  void on_restart(Instant now) noexcept;

  double rate() const noexcept { return controller_.rate(); }  // bits per second
  uint64_t window() const noexcept { return controller_.window(); }
  Duration rtt() const noexcept { return rtt_; }  // of the newest measured packet; 0: none yet
  uint64_t marked() const noexcept { return marked_; }  // packets that met ECN

 private:
  bool lives_on_telemetry() const noexcept {
    return preset_.kind->signal == congestion::Signal::telemetry ||
           preset_.kind->signal == congestion::Signal::digest;
  }
  uint64_t sent() const noexcept {
    return requests_.sent() + (responses_ ? responses_->sent() : 0);
  }
  uint64_t acked() const noexcept {
    return requests_.acked() + (responses_ ? responses_->acked() : 0);
  }
  Duration patience() const noexcept;
  Duration leave(Instant now, uint32_t payload) noexcept;
  HostQueue::Found pass_own_queue(Instant now, uint32_t payload) noexcept;
  bool tell(Instant now, const Flight::Mark& newest, uint32_t newly, bool guess,
            uint32_t packet_bytes) noexcept;
  void changed_rate(double before, Instant now) noexcept;

  const congestion::Preset& preset_;
  congestion::Controller controller_;
  HostQueue& own_queue_;
  const Duration quantum_;
  const bool telemetry_;
  const uint32_t header_bytes_;
  Instant next_;          // when the next packet may leave
  Instant heard_at_;      // of the last acknowledgement
  bool waiting_ = false;  // a packet waits for next_
  Flight requests_;
  std::unique_ptr<Flight> responses_;  // null: the peer may not READ
  uint16_t ecn_seen_ = 0;              // the peer's count of packets that met ECN
  uint32_t ecn_new_ = 0;               // not told to the controller yet
  uint64_t marked_ = 0;                // told to it
  Duration rtt_;
  uint16_t path_ = 0;
  bool echoed_ = false;  // an echo waits for its acknowledgement: path_, hop_count_, hops_, digest_
  uint8_t digest_ = 0;
  size_t hop_count_ = 0;
  std::array<congestion::IntHop, congestion::kMaxHops> hops_;
};

}  // namespace weft::roce::rc
