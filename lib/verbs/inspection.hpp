// SPDX-License-Identifier: BSD-3-Clause
// What a look into an open device finds (weft_stat): plain values, copied out a few objects at a
// time so that nobody who moves packets waits for more than microseconds. A queue pair that comes
// or goes while the look is taken may be missing, or be there twice.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "weft/device.hpp"
#include "weft/qp.hpp"

namespace weft::verbs {

// What congestion control allows one flow. Zeros: it does not say, or has not measured.
struct FlowReport {
  double rate = 0;         // bits per second
  uint64_t window = 0;     // bytes
  uint64_t in_flight = 0;  // bytes
  Duration rtt;
  uint64_t marks = 0;  // packets that met ECN, as the other side tells
};

struct QpReport {
  QpNum number;
  QpType type = QpType::rc;
  QpState state = QpState::reset;
  QpNum peer;  // connected ones
  Gid address;
  uint32_t mtu = 0;            // bytes
  uint32_t posted_sends = 0;   // not completed
  uint32_t posted_recvs = 0;   // not completed; of its own queue
  uint64_t sent_packets = 0;   // PSNs used so far, READ responses included; connected ones
  uint64_t acked_packets = 0;  // of those
  uint32_t expected_psn = 0;   // of the peer's next request
  uint32_t received = 0;       // messages that the peer's requests completed, modulo 2^24
  uint8_t retries_left = 0;
  bool waits_for_receive = false;  // the peer had none: RNR
  FlowReport flow;
};

// SRD: another endpoint.
struct PeerReport {
  Gid address;
  QpNum endpoint;  // its queue pairs have these top 8 bits
  uint64_t sent_packets = 0, acked_packets = 0;
  uint64_t received_bytes = 0;
  uint32_t resting = 0;   // messages that wait until the peer has a receive
  uint32_t awaiting = 0;  // READs and atomics without their answer
  uint32_t duplicates = 0;
  uint32_t timeouts = 0;  // in a row
  bool active = false;    // something is on the way: paths and flow are known
  FlowReport flow;
  std::vector<PathReport> paths;
};

// An asynchronous event, or the end of a request in an error.
struct EventReport {
  Duration ago;
  std::string_view what;  // "port_error", "retry_exceeded"
  QpNum qp;               // 0: of the device
};

struct Inspection {
  std::string note;  // why something is missing; empty: nothing is
  Instant at;        // by the device's clock
  std::vector<Counter> counters;
  std::vector<QpReport> queue_pairs;
  std::vector<PeerReport> peers;
  std::vector<EventReport> events;  // the last ones, oldest first
};

// As JSON, one object, appended.
void append_json(std::string& out, const DeviceAttributes& attributes, const Inspection& found);
// A string of JSON, quotes included, appended.
void append_json(std::string& out, std::string_view text);

}  // namespace weft::verbs
