// SPDX-License-Identifier: BSD-3-Clause
// A flow over many paths, at both ends, while it runs. All bytes are those on the wire, as the
// controllers of this kind count them.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/base/check.hpp"
#include "lib/base/ring_queue.hpp"
#include "lib/congestion/controller.hpp"
#include "lib/congestion/path_policy.hpp"
#include "lib/sim/hosts/flow.hpp"
#include "lib/sim/hosts/light_spray/sequence_bits.hpp"
#include "lib/sim/tasks/messages.hpp"

namespace weft::sim::spray {

struct Sent {
  int64_t at = 0;  // ps: the last transmission
  uint32_t transmissions = 0;
};

struct Sender {
  uint32_t cumulative = 0;           // packets known to have arrived in order
  uint32_t next = 0;                 // the first that was never sent
  uint32_t outstanding_packets = 0;  // sent, not acknowledged and not marked lost
  uint32_t lost = 0;                 // packets to retransmit
  int64_t bytes_in_flight = 0;       // sent, and not counted by the receiver or marked lost
  uint64_t received = 0;             // bytes that the receiver counted
  SequenceBits outstanding;          // a bit for each of outstanding_packets
  SequenceBits to_retransmit;        // a bit for each of lost
  std::vector<Sent> sent;            // by number, in a ring
  struct Departure {
    uint32_t number;
    uint32_t transmissions;
  };
  base::RingQueue<Departure> departures;  // in the order of sending, acknowledged ones included
  int64_t timer_at = flow::kNever;        // ps: the flow_timer event in the wheel
  int64_t probed_at = -1;                 // ps: the last probe
  uint32_t granted = 0;                   // credit received, units in all
  uint32_t requested = 0;                 // credit requested, units in all: in every data packet
  bool responded = false;                 // the receiver has answered
  bool queued = false;                    // in its NIC's list
  congestion::Controller controller;
  congestion::PathPolicy paths;

  Sent& sent_of(uint32_t number) noexcept { return sent[number & (sent.size() - 1)]; }
  const Sent& sent_of(uint32_t number) const noexcept { return sent[number & (sent.size() - 1)]; }
  // The numbers between `cumulative` and `next` are outstanding, lost or acknowledged selectively.
  bool valid() const noexcept {
    return cumulative <= next && outstanding_packets + lost <= next - cumulative;
  }
};

struct Receiver {
  uint32_t expected = 0;       // packets that arrived in order
  uint32_t out_of_order = 0;   // packets that arrived above `expected`
  uint32_t high = 0;           // one above the highest
  uint32_t unacked_bytes = 0;  // since the last acknowledgement
  uint64_t received = 0;       // bytes, each packet once
  bool ack_requested = false;  // acknowledge when the sequence gaps are closed
  uint8_t grant_entropy = 0;   // entropy value of the last grant
  uint32_t credit_number = 0;  // its sender number at the host's CreditPacer
  SequenceBits arrived;
};

struct alignas(64) Flow {
  uint32_t packets = 0;
  uint32_t released = 0;    // of these, packets that may be sent (tasks/messages.hpp)
  uint32_t last_bytes = 0;  // of its last packet
  uint32_t src = 0;
  uint32_t dst = 0;
  // Not null: the flow carries messages, and is number `self` there.
  const flow::Messages* messages = nullptr;
  uint32_t self = 0;
  uint32_t header = 0;
  Sender sender;
  Receiver receiver;

  bool done() const noexcept { return sender.cumulative == packets; }
  bool has_work() const noexcept { return sender.lost > 0 || sender.next < released; }
  // Nothing to send, and all that was sent is acknowledged: the flow waits for its next message.
  bool idle() const noexcept { return sender.cumulative == released; }
  uint32_t bytes_of(uint32_t number, uint32_t full_bytes) const noexcept {
    WEFT_DCHECK(number < packets);
    if (messages != nullptr) return messages->payload(self, number) + header;
    return number + 1 == packets ? last_bytes : full_bytes;
  }
  // Takes an outstanding packet out of flight, to be retransmitted.
  void mark_lost(uint32_t number, uint32_t full_bytes) noexcept {
    WEFT_DCHECK(sender.outstanding.test(number) && !sender.to_retransmit.test(number));
    sender.outstanding.clear(number);
    --sender.outstanding_packets;
    sender.bytes_in_flight -= bytes_of(number, full_bytes);
    sender.to_retransmit.set(number);
    ++sender.lost;
  }
};

}  // namespace weft::sim::spray
