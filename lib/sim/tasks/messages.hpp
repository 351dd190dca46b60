// SPDX-License-Identifier: BSD-3-Clause
// The messages of flows at hosts: which packets each message has, how many packets of a flow may be
// sent by now, and which messages have arrived or been acknowledged since the run loop looked.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "lib/base/check.hpp"
#include "lib/sim/tasks/task_graph.hpp"

namespace weft::sim::flow {

class Messages {
 public:
  // A message has ended, at its receiver or at its sender.
  struct End {
    uint32_t task;
    bool acknowledged;
  };

  // `payload`: of a full packet. The last packet of each message has what remains.
  Messages(const TaskGraph& graph, size_t flows, uint32_t payload);

  // The flow carries messages; of others this class knows nothing.
  bool carries(uint32_t flow) const noexcept { return streams_[flow].count > 0; }
  // Packets of all messages of the flow, and of those that were released.
  uint32_t packets(uint32_t flow) const noexcept;
  uint32_t released(uint32_t flow) const noexcept;
  // The payload of a packet.
  uint32_t payload(uint32_t flow, uint32_t number) const noexcept;

  // The run loop: the next message of the flow may be sent.
  void release(uint32_t flow) noexcept {
    WEFT_DCHECK(streams_[flow].released < streams_[flow].count);
    ++streams_[flow].released;
  }
  // The task of the next message to be released; false if there is none.
  bool next_task(uint32_t flow, uint32_t& task) const noexcept;

  // Hosts: so many packets of the flow have arrived in order, or are acknowledged.
  void arrived(uint32_t flow, uint32_t packets) {
    advance(streams_[flow], streams_[flow].arrived, packets, false);
  }
  void acknowledged(uint32_t flow, uint32_t packets) {
    advance(streams_[flow], streams_[flow].acknowledged, packets, true);
  }
  bool has_ends() const noexcept { return !ends_.empty(); }
  std::vector<End> take_ends() { return std::exchange(ends_, {}); }

 private:
  // A flow's messages are a range of boundaries_.
  struct Stream {
    uint32_t first = 0;
    uint32_t count = 0;
    uint32_t released = 0;  // messages
    uint32_t arrived = 0;
    uint32_t acknowledged = 0;
  };
  struct Boundary {
    uint32_t packets;       // of the flow up to the end of this message
    uint32_t last_payload;  // of its last packet
    uint32_t task;
  };
  void advance(const Stream& stream, uint32_t& reached, uint32_t packets, bool acknowledged) {
    for (; reached < stream.count; ++reached) {
      const Boundary& boundary = boundaries_[stream.first + reached];
      if (boundary.packets > packets) return;
      ends_.push_back({boundary.task, acknowledged});
    }
  }

  const uint32_t payload_;
  std::vector<Stream> streams_;  // by flow
  std::vector<Boundary> boundaries_;
  std::vector<End> ends_;
};

}  // namespace weft::sim::flow
