// SPDX-License-Identifier: BSD-3-Clause
// A flow over many paths, at both ends, while it runs. All bytes are those on the wire, as the
// controllers of this kind count them.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/base/ring_queue.hpp"
#include "lib/congestion/controller.hpp"
#include "lib/congestion/path_policy.hpp"
#include "lib/sim/hosts/flow.hpp"
#include "lib/sim/hosts/light_spray/sequence_bits.hpp"

namespace weft::sim::spray {

struct Sent {
  int64_t at = 0;      // ps
  uint32_t times = 0;  // how often
};

struct Sender {
  uint32_t cumulative = 0;   // packets known to have arrived in order
  uint32_t next = 0;         // the first that was never sent
  uint32_t on_way = 0;       // packets sent, not acknowledged and not known to be lost
  uint32_t lost = 0;         // packets to be sent again
  int64_t in_flight = 0;     // bytes: sent, and not counted by the receiver or known to be lost
  uint64_t received = 0;     // bytes that the receiver counted
  SequenceBits outstanding;  // a bit for each of on_way
  SequenceBits to_repeat;    // a bit for each of lost
  std::vector<Sent> sent;    // by number, in a ring
  struct Departure {
    uint32_t number;
    uint32_t times;
  };
  base::RingQueue<Departure> departures;  // in the order of sending; many are settled
  int64_t timer_at = flow::kNever;        // ps: a flow_timer event that is on its way
  int64_t asked_at = -1;                  // ps: the last ask
  uint32_t granted = 0;                   // units, in all
  uint32_t wished = 0;                    // units, in all: with every data packet
  bool heard = false;                     // of the receiver
  bool queued = false;                    // in its NIC's list
  congestion::Controller controller;
  congestion::PathPolicy paths;

  Sent& sent_of(uint32_t number) noexcept { return sent[number & (sent.size() - 1)]; }
  const Sent& sent_of(uint32_t number) const noexcept { return sent[number & (sent.size() - 1)]; }
};

struct Receiver {
  uint32_t expected = 0;    // packets that arrived in order
  uint32_t beyond = 0;      // packets that arrived above
  uint32_t high = 0;        // one above the highest
  uint32_t unanswered = 0;  // bytes since the last acknowledgement
  uint64_t received = 0;    // bytes, each packet once
  bool asked = false;       // for an acknowledgement when the gaps are closed
  uint8_t turn = 0;         // entropy of grants
  uint32_t credit = 0;      // its number at the host's CreditPacer
  SequenceBits arrived;
};

struct alignas(64) Flow {
  uint32_t packets = 0;
  uint32_t last_bytes = 0;  // of its last packet
  uint32_t src = 0;
  uint32_t dst = 0;
  Sender sender;
  Receiver receiver;

  bool done() const noexcept { return sender.cumulative == packets; }
  bool has_work() const noexcept { return sender.lost > 0 || sender.next < packets; }
};

}  // namespace weft::sim::spray
