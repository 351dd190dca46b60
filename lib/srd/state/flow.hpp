// SPDX-License-Identifier: BSD-3-Clause
// What may be in flight to one peer, over all its paths together: at most what the port says the
// peer's buffer absorbs, and what a controller of lib/congestion allows: a window, a rate, and the
// receiver's credit. Lives as long as the flight that it is part of.
#pragma once

#include "lib/congestion/controller.hpp"
#include "lib/srd/state/transport_names.hpp"
#include "lib/transport/host_queue.hpp"
#include "lib/transport/window.hpp"

namespace weft::srd {

// What all flows of a device have in common.
struct FlowRules {
  const congestion::Preset* preset = nullptr;  // null: no controller. Outlives the flows
  HostQueue* own_queue = nullptr;              // if the controller uses digests; outlives the flows
  bool halve_on_loss = false;                  // the port's window, where there is no controller
  uint64_t absorbed = 0;                       // by a peer's buffer, in bytes
  uint32_t packet_overhead = 0;                // of each packet there, besides its payload
  uint32_t mtu = 4096;
};

class Flow {
 public:
  void start(const FlowRules& rules);

  // A packet may leave now. If not, an acknowledgement opens the flow, or the pacer at wake_at().
  bool open(Instant now) const noexcept;
  Instant wake_at() const noexcept { return next_; }
  // Of the controller's timer.
  Instant deadline() const noexcept;
  void on_deadline(Instant now) noexcept {
    if (preset_ != nullptr && controller_.next_deadline() <= now) act(now);
  }

  // For each packet, with the length of its payload.
  void on_sent(uint32_t payload, Instant now) noexcept;
  void on_arrived(uint32_t payload) noexcept;
  // The flow fills in what it knows of the loss (bytes, counters).
  void on_lost(uint32_t payload, congestion::Loss loss) noexcept;
  // A packet will never arrive, for a reason that says nothing about the network.
  void forget(uint32_t payload) noexcept;

  struct Echo {
    Instant now;
    Duration rtt;  // 0: unknown
    uint32_t marked = 0;
    uint16_t path = 0;
    uint8_t digest = 0;  // 0: no switch on the path writes one
  };
  // After on_arrived() for all packets of one acknowledgement. False: the controller uses digests
  // and there was none; it gets that of our own queue.
  bool on_acknowledgement(const Echo& echo) noexcept;
  void on_credit(uint32_t units, Instant now) noexcept;
  // Nothing is in flight, and no credit arrives: one packet may leave to request it.
  void allow_one() noexcept { allowed_one_ = true; }

  bool credited() const noexcept { return preset_ != nullptr && preset_->kind->credit != nullptr; }
  // Units of credit wanted beyond what is left, to send `backlog` bytes.
  uint32_t credit_wanted(uint64_t backlog) const noexcept;

  // Bytes that a packet takes on a link, its payload included.
  static uint64_t on_wire(uint32_t payload) noexcept;
  uint64_t in_flight() const noexcept { return in_flight_; }  // on the wire
  // Bytes of the port's window that are used: payload, and the port's overhead of each packet.
  uint64_t in_port_window() const noexcept { return window_.in_flight; }
  uint64_t window() const noexcept;
  // Bits per second that the controller allows; 0: a window alone decides.
  double rate() const noexcept { return paced() ? controller_.rate() : 0; }

 private:
  void act(Instant now) noexcept;
  bool paced() const noexcept { return preset_ != nullptr && !preset_->kind->sprayed; }

  const congestion::Preset* preset_ = nullptr;
  HostQueue* own_queue_ = nullptr;
  bool halve_on_loss_ = false;
  uint32_t packet_overhead_ = 0;
  uint32_t mtu_ = 0;
  Window window_;  // of the port
  congestion::Controller controller_;
  uint64_t sent_ = 0, acked_ = 0;  // bytes on the wire, since the start
  uint64_t in_flight_ = 0;
  uint32_t newly_acked_ = 0;
  bool allowed_one_ = false;
  uint8_t own_digest_ = 0;  // of our own queue, when the newest packet left
  Instant next_;            // when the next packet may leave
  Instant cut_after_;       // marks before then belong to the last reduction
};

}  // namespace weft::srd
