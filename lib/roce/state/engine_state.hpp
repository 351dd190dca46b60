// SPDX-License-Identifier: BSD-3-Clause
// The part of an engine that the handlers of packets and requests use (message/, rc/, unreliable/,
// which are functions over (EngineState, QueuePair, ...)): keys, counters and events of Machine,
// the lists of queue pairs with something to do, timers, early packets. The Engine above it owns
// the queue pairs and joins the handlers.
#pragma once

#include <optional>

#include "lib/base/timer_wheel.hpp"
#include "lib/congestion/registry.hpp"
#include "lib/roce/state/ack_schedule.hpp"
#include "lib/roce/state/destination.hpp"
#include "lib/roce/state/early_packets.hpp"
#include "lib/roce/state/habits.hpp"
#include "lib/roce/state/notice_queue.hpp"
#include "lib/roce/state/queue_pair.hpp"
#include "lib/roce/state/srq_table.hpp"
#include "lib/roce/state/transport_names.hpp"
#include "lib/roce/state/violations.hpp"
#include "lib/transport/machine.hpp"

namespace weft::roce {

struct EngineConfig {
  Limits limits;
  Instant start;
  // Congestion control of RC and XRC requesters; none: as fast as the destination's window permits.
  std::optional<congestion::Preset> congestion;
  // For controllers that single queue pairs choose.
  congestion::Conditions conditions{
      .line = Rate::from_gbps(10), .rtt = Duration::from_us(50), .network = {}};
  Duration cnp_interval = Duration::from_us(50);  // between CNPs of one queue pair; 0: one a mark
  uint8_t cnp_dscp = 48;  // of CNPs: network control, as NICs have it by default
  Habits habits;
  // A paced queue pair that was held up may catch up on this much time: the length of a burst.
  Duration pacing_quantum = Duration::from_us(10);
  // Bytes of the link that a paced packet takes besides payload. None: those of Ethernet.
  std::optional<uint32_t> frame_overhead;
  uint16_t early_packets = 2048;  // buffered behind sequence gaps, all queue pairs together
  // False: the ICRC field is sent as zero, and only zero is accepted: for paths that change what
  // the ICRC covers (address translation), where both peers agreed. A peer with ICRC drops our
  // packets as damaged, and we drop the peer's.
  bool icrc = true;
  bool throttle = false;          // refuse connections to peers that use wrong keys: violations.hpp
  bool waits_for_stopped = true;  // a peer that is stopped costs no retries: stopped_peer.hpp
  bool credits = true;  // advertise end-to-end credits; false: always "unlimited", as kernel rxe
};

class EngineState : public Machine {
 public:
  const EngineConfig& config() const noexcept { return config_; }

  // transmit() gives `qp` a turn.
  void activate(QueuePair& qp) noexcept { active_.push(qp); }
  // UC, UD: requests complete when the port has taken their frames, at the next transmit().
  void complete_after_transmit(QueuePair& qp) noexcept { transmitted_.push(qp); }
  AckSchedule& acks() noexcept { return acks_; }
  NoticeQueue& notices() noexcept { return notices_; }
  EarlyPackets& early_packets() noexcept { return early_packets_; }
  // Wakes `qp` at `deadline` or earlier; the handler compares the true deadline.
  void arm_timer(QueuePair& qp, Instant deadline) noexcept;

  void wait_for_window(QueuePair& qp) noexcept {
    WEFT_DCHECK(!qp.destination->window.open());
    qp.destination->waiting.push(qp);
  }
  // Activates the first queue pair that waits, if the window is open. transmit() calls this again
  // after serving it, so that a thousand queue pairs are not woken for room that one of them takes.
  void wake_waiting(Destination& d) noexcept {
    if (!d.waiting.empty() && d.window.open()) activate(d.waiting.pop());
  }

  // The XRC shared receive queue of that number, or nullptr.
  SharedReceives* find_srq(uint32_t number) const noexcept { return srqs_.find(number); }
  // The peer of an RC queue pair does not answer: the port finds out whether a process has its UDP
  // port. Only with selective repeat: to a queue pair that is not weft's, nothing but RoCEv2 is
  // sent.
  void ask_for_peer(const QueuePair& qp) noexcept;
  // See Port::unread().
  std::optional<uint64_t> unread_by_peer(const QueuePair& qp) noexcept {
    return port_.unread(qp.path.destination, qp.peer, qp.path.in_memory);
  }
  // Counts an invalid key of the peer, which ends its queue pair.
  void note_violation(const QueuePair& qp) noexcept;
  // A paced packet left `late_ns` after its time. In real time a packet leaves when a thread calls.
  void count_paced_departure(uint64_t late_ns) noexcept;

 protected:
  EngineState(Port& port, const EngineConfig& config, base::SecureRandom& random);
  void remove_from_lists(QueuePair& qp) noexcept;

  EngineConfig config_;
  base::TimerWheel wheel_;
  base::Line<QueuePair, &QueuePair::active> active_;  // round robin
  AckSchedule acks_;
  NoticeQueue notices_;
  base::Line<QueuePair, &QueuePair::transmitted> transmitted_;
  EarlyPackets early_packets_;
  SrqTable srqs_;
  Violations violations_;
};

}  // namespace weft::roce
