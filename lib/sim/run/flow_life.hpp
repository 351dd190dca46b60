// SPDX-License-Identifier: BSD-3-Clause
// The life of one flow: what its packets met on each hop, what was lost, marked and paused, and
// when its bytes arrived. Recorded from the events of the run loop, so that a run without it costs
// nothing more. A packet is seen from its arrival at the first switch on: the wait in its NIC is
// not a queue of the network.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>
#include <vector>

#include "lib/sim/fabric/fabric.hpp"

namespace weft::sim::flow {

// Of one flow, or of the messages of one connection.
struct FlowReport {
  struct Hop {
    uint32_t port = 0;
    uint64_t packets = 0;   // data that went through, whole
    double queued_ns = 0;   // sum of the times that packets waited for this port
    double most_ns = 0;     // the longest
    uint64_t dropped = 0;   // by this port's queue or buffer, or lost by its link
    uint64_t trimmed = 0;   // by this port's queue
    int64_t paused_ns = 0;  // between the flow's first packet and its last arrival
  };
  std::vector<Hop> hops;       // by distance from the source, then by port
  uint64_t data_arrived = 0;   // packets at the destination, duplicates included
  uint64_t marked = 0;         // of these, with ECN's mark
  uint64_t retransmitted = 0;  // packets that left the NIC once more
  uint64_t acks = 0, naks = 0, cnps = 0, grants = 0;  // that arrived at the source
  int64_t first_ns = -1, last_ns = -1;                // arrival of data at the destination
  double least_delay_ns = 0, mean_delay_ns = 0, most_delay_ns = 0;  // first switch to destination
  // Payload and headers that arrived in each interval from `begin_ns` on.
  int64_t begin_ns = 0, interval_ns = 0;
  std::vector<uint64_t> arrived_bytes;
};

class FlowLife {
 public:
  // Of flow number `flow`, which host `source` sends.
  FlowLife(const fabric::Topology& topology, const fabric::Fabric& fabric, uint32_t flow,
           uint32_t source)
      : topology_(topology), fabric_(fabric), flow_(flow), source_(source) {}

  // An event that is about to happen: of interest are packets of the flow, and PFC frames.
  void see(const fabric::Packet& packet);
  // A packet that the network drops or loses.
  void dropped(const fabric::Packet& packet);
  FlowReport report() const;

 private:
  static constexpr size_t kMostBins = 64;
  // Where and when a packet was seen last.
  struct Seen {
    int64_t at;
    uint32_t port;
    bool whole;  // not trimmed
  };
  struct HopCount {
    FlowReport::Hop hop;
    uint32_t distance = UINT32_MAX;  // least
  };
  struct Pause {
    uint32_t port;
    int64_t begin, end;  // ps; end -1: still paused
  };
  static uint64_t key(uint32_t number, uint32_t hop) { return uint64_t{number} << 8 | hop; }
  FlowReport::Hop& hop_of(uint32_t port, uint32_t distance);
  void see_data(const fabric::Packet& packet);
  void leave(const fabric::Packet& packet, const Seen& seen);
  void arrive(const fabric::Packet& packet);
  void add_to_bins(int64_t at_ns, uint32_t bytes);
  int64_t paused_ns(uint32_t port) const;

  const fabric::Topology& topology_;
  const fabric::Fabric& fabric_;
  const uint32_t flow_;
  const uint32_t source_;
  std::unordered_map<uint64_t, Seen> seen_;           // by packet number and hop
  std::unordered_map<uint32_t, int64_t> in_network_;  // by packet number: since when, ps
  std::map<uint32_t, HopCount> hops_;                 // by port
  std::vector<Pause> pauses_;
  int64_t begun_ = -1;    // ps: the first packet was seen
  int64_t ended_ = 0;     // ps: the last one was
  uint32_t highest_ = 0;  // one above the highest number that was seen
  double delays_ns_ = 0;  // sum over `timed_` packets
  uint64_t timed_ = 0;
  FlowReport report_;
};

}  // namespace weft::sim::flow
