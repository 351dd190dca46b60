// SPDX-License-Identifier: BSD-3-Clause
// A snapshot of an open device for weft_stat: plain values, copied a few objects at a time so that
// the driver's lock is held for microseconds only. Queue pairs that are created or destroyed
// meanwhile may be missing or appear twice.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "weft/device.hpp"
#include "weft/qp.hpp"

namespace weft::verbs {

// Congestion control state of a flow. 0: unknown or not measured.
struct FlowReport {
  double rate = 0;         // bits per second
  uint64_t window = 0;     // bytes
  uint64_t in_flight = 0;  // bytes
  Duration rtt;
  uint64_t marks = 0;  // packets with ECN marks, as reported by the peer
};

struct QpReport {
  QpNum number;
  QpType type = QpType::rc;
  QpState state = QpState::reset;
  QpNum peer;                  // connected queue pairs only
  Gid address;                 // of the peer
  uint32_t mtu = 0;            // bytes
  uint32_t posted_sends = 0;   // not completed
  uint32_t posted_recvs = 0;   // not completed; in its own receive queue
  uint64_t sent_packets = 0;   // PSNs used, READ responses included; connected queue pairs only
  uint64_t acked_packets = 0;  // PSNs acknowledged
  uint32_t expected_psn = 0;   // PSN of the peer's next request
  uint32_t received = 0;       // messages completed as responder (MSN), modulo 2^24
  uint8_t retries_left = 0;
  bool waits_for_receive = false;  // after an RNR NAK
  bool in_memory = false;          // requests leave through memory shared with the peer (port auto)
  FlowReport flow;
};

// SRD: a peer.
struct PeerReport {
  Gid address;
  QpNum endpoint;  // its queue pairs have these top 8 bits
  uint64_t sent_packets = 0, acked_packets = 0;
  uint64_t received_bytes = 0;
  uint32_t resting = 0;     // messages that wait for a receive of the peer (RNR)
  uint32_t awaiting = 0;    // READs and atomics without a response
  uint32_t duplicates = 0;  // duplicate packets received
  uint32_t timeouts = 0;    // consecutive retransmission timeouts
  bool active = false;      // packets are in flight: paths and flow are valid
  bool in_memory = false;   // packets leave through memory shared with the peer (port auto)
  FlowReport flow;
  std::vector<PathReport> paths;
};

// An asynchronous event, or a request that completed with an error.
struct EventReport {
  Duration ago;
  std::string_view what;  // "port_error", "retry_exceeded"
  QpNum qp;               // 0: an event of the device
  std::string_view why;   // its usual cause and what to do, or what says that the peer is gone
  Gid peer;               // of a request that failed; zero: not known
};

struct Inspection {
  std::string note;  // why the snapshot is incomplete; empty: it is complete
  Instant at;        // on the device's clock
  std::vector<Counter> counters;
  std::vector<QpReport> queue_pairs;
  std::vector<PeerReport> peers;
  std::vector<EventReport> events;  // the most recent ones, oldest first
};

// Appends a JSON object.
void append_json(std::string& out, const DeviceAttributes& attributes, const Inspection& found);

}  // namespace weft::verbs
