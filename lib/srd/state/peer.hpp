// SPDX-License-Identifier: BSD-3-Clause
// All state towards one other endpoint (an open device: an address and the top 8 bits of its QPNs),
// whatever the number of queue pairs on both sides. Two halves that share only the address: a
// stream of packets to it, and one from it.
#pragma once

#include <memory>

#include "lib/base/timer_wheel.hpp"
#include "lib/srd/state/flight.hpp"
#include "lib/srd/state/message.hpp"
#include "lib/srd/state/order.hpp"
#include "lib/srd/state/rails.hpp"
#include "lib/srd/state/receive_window.hpp"
#include "lib/srd/state/transport_names.hpp"
#include "lib/transport/ack_patience.hpp"
#include "weft/types.hpp"

namespace weft::srd {

struct Sender {
  uint32_t epoch = 0;              // of our stream; grows with time
  uint32_t since = 0;              // epoch of the first stream in which what waits was sent
  uint32_t incarnation = 0;        // of the peer, 0 = not known yet
  bool confirmed = false;          // something of this stream was acknowledged
  bool anew = false;               // but nothing since the peer's present stream to us began, and
                                   // nothing was on the way then
  uint64_t next = 0;               // sequence of the next new packet
  uint64_t una = 0;                // oldest not acknowledged
  std::unique_ptr<Flight> flight;  // null: nothing is on the way
  uint32_t granted = 0;            // units of credit in all, as the peer says
  uint16_t marks = 0;              // packets that met ECN, as the peer says
  MessageLine urgent[2];           // of the traffic classes that go first, by urgency
  MessageLine small;               // messages of a few packets, in order
  MessageLine turns;               // a few long messages that take turns
  MessageLine bulk;                // long messages that wait for that
  MessageLine later;               // ordered messages that are beyond the window
  MessageLine adds;                // ordered WRITE_ADDs that wait for `adding`
  Message* adding = nullptr;       // the one that is on its way
  OrderSet order;                  // ordered messages that have ended
  uint32_t next_order = 0;
  uint32_t turns_taken = 0;
  uint32_t turn_packets = 0;  // of the long message whose turn it is
  uint32_t small_run = 0;     // packets of short messages since the last turn
  uint32_t urgent_run = 0;    // packets of urgent messages since one of another
  Message* all = nullptr;
  uint32_t resting = 0;     // messages that wait for the peer to have a receive
  uint32_t awaiting = 0;    // READs and atomics without their answer
  Duration rtt, rtt_var;    // over all paths
  uint16_t duplicates = 0;  // that the peer has told of
  uint8_t tolerance = 0;    // packets that may overtake on one path before a gap is a loss
  uint8_t backoff = 0;      // time-outs in a row
  uint8_t probes = 0;       // of the tail, since the last progress
  uint8_t jitter = 0;       // of the next one
  Instant backed_off_at;    // when `backoff` grew last
  uint32_t train_left = 0;  // packets that still go on `train_path`
  uint8_t train_path = 0;
  Instant used_at;       // when something was last sent: what comes from the peer proves nothing
  Instant newest_acked;  // when the youngest packet left that is known to have arrived
  Instant progress_at;   // last acknowledgement of something new, or the start of a flight
  Instant probe_answers_at = Instant::never();  // when to ask whether the peer still lives

  // The line of a message that does not wait behind long ones.
  MessageLine& quick(const Message& m) { return m.urgency() < 0 ? small : urgent[m.urgency()]; }
  // No new packet waits to be sent.
  bool quiet() const { return !hurries() && small.empty() && turns.empty() && bulk.empty(); }
  bool hurries() const { return !urgent[0].empty() || !urgent[1].empty(); }
  // A turn may find something to do: packets to send or to send again, paths to try.
  bool busy() const { return una != next || !quiet(); }
};

struct Receiver {
  bool known = false;  // a stream has begun
  uint32_t epoch = 0;
  ReceiveWindow window;
  uint64_t received_bytes = 0;
  uint16_t duplicates = 0;
  uint32_t assemblies = 0;
  uint32_t answers = 0;                    // being sent
  uint16_t marks = 0;                      // packets that came ECN-marked
  std::unique_ptr<OrderedReceives> order;  // null: there are no ordered SENDs
  uint32_t credit_number = UINT32_MAX;     // among those that are granted credit
  uint32_t granted = 0;                    // units in all
  int64_t taken = 0;                       // bytes on the wire beyond what was granted
  // The packet that the next acknowledgement echoes.
  bool ack_pending = false;
  uint16_t unanswered = 0;            // packets since the last one
  Instant ack_at = Instant::never();  // when it leaves, however few they are
  AckPatience ack_patience;           // until it leaves (Config::answer_first)
  bool ecn = false;
  uint8_t digest = 0;
  uint8_t path = 0;
  Way way;
  uint16_t path_sequence = 0;
  uint32_t echo = 0;
  Instant arrived;
  bool asked_for_ways = false;  // its sender knows of our further addresses
  uint32_t told_of_rails = 0;   // chances to tell it
};

struct Peer;

// What the timer wheel gives back leads to its owner.
struct PeerTimer : base::TimerNode {
  Peer* owner = nullptr;
};

struct Peer {
  Gid address;
  uint32_t block = 0;  // top 8 bits of its QPNs
  uint32_t index = 0;
  uint32_t least_epoch = 0;  // of our next stream
  uint32_t incarnation = 0;  // that we have for it
  bool stranger = false;     // only heard of: it has not shown yet that it hears us
  Sender tx;
  // Beside what each message touches: with many peers none of it is in a near cache.
  base::LineLink<Peer> active;  // of those with something to send
  PeerTimer timer;
  std::unique_ptr<Rails> rails;   // null: nothing is known of further addresses
  Instant used_at;                // the last packet either way
  base::LineLink<Peer> ack_line;  // of those whose acknowledgement waits
  Receiver rx;

  QpNum endpoint() const { return QpNum{block << 16}; }
};

}  // namespace weft::srd
