// SPDX-License-Identifier: BSD-3-Clause
// Simulates schedules on a network packet by packet. Each link has a queue per traffic class and
// sends one packet at a time; nodes store and forward, choose any of the shortest paths per packet,
// and drop nothing unless a switch fails. Several calls of different classes may run at once, which
// shows how long a small call waits behind a large one; the flow model cannot.
//
// A put has a window of packets in the queues of its chip and adds one when one has left, so that
// the puts of a chip share its links.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "lib/collective/model/topology.hpp"
#include "lib/collective/plan/schedule.hpp"

namespace weft::collective {

struct PacketCall {
  Shape shape;
  const std::vector<Program>* programs = nullptr;
  double element = 1, accumulator = 1;  // bytes
  uint32_t traffic_class = 0;           // 0 (highest priority) to kTrafficClasses - 1
  double start_s = 0;
};

// Switches that fail at `at_s`; paths of the same length must remain. Packets in them and on their
// links are lost. The source chip retransmits a lost packet `detection_s` later, and `detection_s`
// after the failure no chip uses the failed switches.
struct PacketLoss {
  std::vector<uint32_t> nodes;
  double at_s = 0;
  double detection_s = 0;
};

struct PacketOptions {
  double packet_bytes = 4096;
  uint32_t window = 8;  // packets
  // Weight 0: strict priority over the later classes; the others share the rest by weight.
  std::array<double, kTrafficClasses> weights = {};
  uint64_t seed = 1;  // of the choice of paths
  PacketLoss loss;
};

struct PacketOutcome {
  std::vector<double> seconds;     // of each call, from its start; infinite: never completes
  std::vector<double> link_bytes;  // carried by each link
  uint64_t packets = 0;            // transmissions, one per packet and link
  uint64_t lost = 0;               // packets, retransmissions included
};

// Rank r is chip r.
PacketOutcome simulate_packets(std::span<const PacketCall> calls, const Topology& topology,
                               Routes& routes, const PacketOptions& options = {});

}  // namespace weft::collective
