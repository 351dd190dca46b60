// SPDX-License-Identifier: BSD-3-Clause
// Congestion control of one requester: tells the controller of lib/congestion what happened to its
// SENDs and WRITEs, and says when the next packet may leave. A queue pair without `cc` has none.
//
// Positions are payload bytes since the start. Each packet asks for an acknowledgement, which may
// stand for many; it is compared with the marks: when packets left, and what had been sent by then.
// What switches said of the way comes with it where the peer agreed (lib/wire/INT.md). Where nobody
// says anything, a controller that lives on it gets the queue before our own port.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "lib/congestion/controller.hpp"
#include "lib/engine/rc/host_queue.hpp"
#include "lib/wire/int_block.hpp"
#include "weft/units.hpp"

namespace weft::engine::rc {

class Pacer {
 public:
  // `preset` and `own_queue` outlive the pacer. A flow that could not send for a while may catch up
  // on `quantum`. `overhead`: what a packet takes of the link besides its payload; none: what it
  // takes of Ethernet. `telemetry`: frames carry it.
  Pacer(const congestion::Preset& preset, HostQueue& own_queue, Duration quantum,
        std::optional<uint32_t> overhead, bool telemetry);

  // May a packet leave now? Else look again at wake_at(), or when an acknowledgement has come.
  bool open(Instant now) const noexcept {
    return next_ <= now && sent_ - acked_ < controller_.window();
  }
  Instant wake_at() const noexcept { return next_; }
  // The controller's own time to act; never() if it has none.
  Instant deadline() const noexcept { return controller_.next_deadline(); }

  // A packet with `payload` bytes left whose successor has the PSN `end`.
  void on_sent(Instant now, uint64_t end, uint32_t payload, bool again) noexcept;
  // What the acknowledgement that comes now carries of the way; before on_acknowledged().
  void on_echo(const wire::IntBlock& echo) noexcept;
  // Everything before PSN `una` has arrived. False: the controller wants telemetry, and there was
  // none.
  bool on_acknowledged(Instant now, uint64_t una, uint32_t packet_bytes) noexcept;
  // Everything from PSN `psn` on will be sent again.
  void on_rewind(uint64_t psn) noexcept;
  void on_loss(Instant now, congestion::Loss::Reason reason) noexcept;
  // Without telemetry it also stands for a packet that met ECN.
  void on_cnp(Instant now) noexcept;
  void on_deadline(Instant now) noexcept;
  // The first packet after a pause: deadlines that passed meanwhile are made up for. After a long
  // pause the flow starts anew.
  void on_restart(Instant now) noexcept;

  double rate() const noexcept { return controller_.rate(); }  // bits per second
  uint64_t window() const noexcept { return controller_.window(); }

 private:
  static constexpr uint32_t kMarks = 256;  // power of two
  struct Mark {
    uint64_t end = 0;   // PSN behind the packet
    uint64_t sent = 0;  // position behind the packet
    Instant at;
    bool again = false;      // sent before: its time tells nothing
    congestion::IntHop own;  // our own queue
  };
  Mark& mark(uint32_t index) noexcept { return marks_[index & (kMarks - 1)]; }
  bool lives_on_telemetry() const noexcept {
    return preset_.kind->signal == congestion::Signal::telemetry;
  }
  void changed_rate(double before, Instant now) noexcept;

  const congestion::Preset& preset_;
  congestion::Controller controller_;
  HostQueue& own_queue_;
  const Duration quantum_;
  const bool telemetry_;
  const uint32_t header_bytes_;
  Instant next_;        // when the next packet may leave
  Instant heard_at_;    // of the last acknowledgement
  uint64_t sent_ = 0;   // goes back at a rewind
  uint64_t acked_ = 0;  // at the last mark that was acknowledged
  uint32_t head_ = 0, tail_ = 0;
  std::array<Mark, kMarks> marks_;
  uint16_t ecn_seen_ = 0;  // the peer's count of packets that met ECN
  uint32_t ecn_new_ = 0;   // not told to the controller yet
  uint16_t path_ = 0;
  bool echoed_ = false;  // an echo waits for its acknowledgement: path_, hop_count_, hops_
  size_t hop_count_ = 0;
  std::array<congestion::IntHop, congestion::kMaxHops> hops_;
};

}  // namespace weft::engine::rc
