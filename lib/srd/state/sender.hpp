// SPDX-License-Identifier: BSD-3-Clause
// The stream of packets to one peer: its numbers, its messages, and what loss recovery knows.
#pragma once

#include <memory>

#include "lib/srd/state/flight.hpp"
#include "lib/srd/state/message.hpp"
#include "lib/srd/state/send_queues.hpp"
#include "lib/transport/stopped_peer.hpp"

namespace weft::srd {

// RFC 6298, over all paths of a peer.
struct RttEstimate {
  Duration smoothed;  // 0: none measured
  Duration variation;

  bool known() const noexcept { return smoothed.ps != 0; }
};

struct LossRecovery {
  uint16_t duplicates = 0;        // that the peer has reported
  uint8_t reorder_tolerance = 0;  // packets that may be overtaken on a path before a gap is a loss
  uint8_t backoff = 0;            // RTOs in a row
  uint8_t tail_probes = 0;        // since the last progress
  uint8_t jitter = 0;             // of the next tail probe
  Instant backed_off_at;          // when `backoff` grew last
  Instant newest_acked;           // transmission time of the newest packet known to have arrived
  Instant progress_at;            // last acknowledgement of something new, or begin of a flight
};

// What the peer's welcome said (stream.cpp), or that we wait for it.
struct Welcome {
  uint64_t incarnation = 0;             // that our packets name; 0: not known yet
  uint64_t stamp = 0;                   // when the peer issued it
  uint64_t process = 0;                 // the peer's
  uint64_t learned = 0;                 // when we learned it: a stamp of ours
  Instant hello_at = Instant::never();  // the next hello, while one is outstanding
  uint8_t hellos = 0;                   // sent since the last welcome
};

struct Sender {
  uint32_t epoch = 0;      // of our stream, 0: none; grows by one
  bool confirmed = false;  // a packet of this stream was acknowledged
  uint64_t incarnation() const { return welcome.incarnation; }
  // Until the peer's incarnation is known hellos say whether it lives.
  bool probes_liveness() const { return awaiting_response != 0 && incarnation() != 0; }
  Welcome welcome;
  uint64_t first = 0;              // sequence number of the stream
  uint64_t next = 0;               // sequence number of the next new packet
  uint64_t una = 0;                // oldest unacknowledged one
  std::unique_ptr<Flight> flight;  // null: una == next, and path state was given back
  uint32_t credit_granted = 0;     // units in all, as the peer reports
  uint16_t ecn_marks = 0;          // packets marked CE, as the peer reports
  SendQueues queues;
  Message* messages = nullptr;     // all that have not ended; the newest
  uint32_t rnr_waiting = 0;        // messages in state rnr_wait
  uint32_t awaiting_response = 0;  // READs and atomics that have not ended
  RttEstimate rtt;
  LossRecovery recovery;
  transport::StoppedPeer stopped;
  uint32_t train_left = 0;  // packets that still go on `train_path`
  uint8_t train_path = 0;
  Instant used_at;  // last transmission; packets from the peer do not count
  Instant liveness_probe_at = Instant::never();  // while a response is awaited

  uint64_t unacked() const { return next - una; }
  // transmit() may have packets of this peer to send or to retransmit, or paths to probe.
  bool has_work() const { return una != next || !queues.empty(); }
};

}  // namespace weft::srd
