// SPDX-License-Identifier: BSD-3-Clause
// The stream of packets from one peer: what was executed, what is half done, and what the next
// acknowledgement reports.
#pragma once

#include <memory>

#include "lib/srd/state/order.hpp"
#include "lib/srd/state/rails.hpp"
#include "lib/srd/state/receive_window.hpp"
#include "lib/srd/state/transport_names.hpp"
#include "lib/transport/ack_delay.hpp"

namespace weft::srd {

// The newest packet received, which the next acknowledgement echoes.
struct Echo {
  bool ecn = false;
  uint8_t digest = 0;
  uint8_t path = 0;
  Route route;
  uint16_t path_sequence = 0;
  uint32_t sequence = 0;  // low half
  Instant arrived;
};

struct Receiver {
  static constexpr uint32_t kNoCredit = UINT32_MAX;
  static constexpr uint32_t kMostResponses = 256;

  bool known = false;  // a stream has begun
  uint32_t epoch = 0;
  ReceiveWindow window;
  uint64_t received_bytes = 0;
  uint16_t duplicates = 0;
  uint32_t assemblies = 0;                 // incomplete messages
  uint32_t responses = 0;                  // that have not ended
  uint16_t ecn_marks = 0;                  // packets marked CE
  std::unique_ptr<OrderedReceives> order;  // null: no ordered SENDs
  uint32_t credit_index = kNoCredit;       // among the peers that are granted credit
  uint32_t credit_granted = 0;             // units in all
  int64_t credit_used = 0;                 // bytes on the wire beyond what was granted
  bool ack_pending = false;
  uint16_t unacked_packets = 0;       // since the last acknowledgement
  Instant ack_at = Instant::never();  // the acknowledgement leaves at the latest
  AckDelay ack_delay;                 // delays it (Config::ack_piggyback_delay)
  Echo echo;
  bool routes_requested = false;  // the sender knows our further addresses
  uint32_t announcements = 0;     // acknowledgements that could announce them
};

}  // namespace weft::srd
