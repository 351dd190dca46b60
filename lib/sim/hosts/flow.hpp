// SPDX-License-Identifier: BSD-3-Clause
// A flow: its specification, and its state at both ends while it runs.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/base/check.hpp"
#include "lib/congestion/controller.hpp"

namespace weft::sim::flow {

struct FlowSpec {
  int64_t start_ns = 0;
  uint32_t src = 0;
  uint32_t dst = 0;
  uint64_t bytes = 0;
  // The hash key of ECMP. Incasts of the reference runs go to port 200, all else to 100.
  int32_t src_port = -1;  // -1: 10000 + how many flows src had to dst before
  uint16_t dst_port = 100;
  uint8_t data_class = 3;      // 1..7
  std::vector<uint32_t> path;  // node by node, reversed for acknowledgements; empty: ECMP
};

inline constexpr int64_t kNever = INT64_MAX;

struct alignas(64) FlowState {
  // The sender.
  uint32_t next = 0;          // packet to be sent next
  uint32_t acked = 0;         // packets acknowledged, cumulative
  uint32_t packets = 0;       // of the flow
  uint32_t released = 0;      // of these, packets that may be sent (tasks/messages.hpp)
  uint32_t last_payload = 0;  // of its last packet
  int64_t next_send = 0;      // ps: not before (pacing)
  int64_t timer_at = kNever;  // ps: the flow_timer event in the wheel
  int64_t progress_at = 0;    // ps: last progress, for the RTO
  uint32_t src = 0;
  uint32_t dst = 0;
  uint32_t slot = 0;        // in its NIC's list
  uint32_t last_bytes = 0;  // on the wire, of the packet sent last
  // The receiver.
  uint32_t expected = 0;               // packets that arrived in order
  uint32_t nak_sent_for = UINT32_MAX;  // the sequence gap that a NAK was sent for
  int64_t next_cnp = 0;                // ps: no CNP before
  bool has_messages = false;
  congestion::Controller controller;

  bool done() const noexcept { return acked == packets; }
  uint64_t payload_of(uint32_t count, uint32_t full) const noexcept {
    // The payload of the first `count` packets.
    WEFT_DCHECK(count <= packets);
    return count == packets ? uint64_t{packets - 1} * full + last_payload : uint64_t{count} * full;
  }
};

}  // namespace weft::sim::flow
