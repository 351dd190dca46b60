// SPDX-License-Identifier: BSD-3-Clause
// Schedules on a network, packet by packet. Each link has a queue for every traffic class and sends
// one packet at a time; packets are stored and forwarded, take any of the shortest paths, and are
// never dropped where nothing is broken. Several calls may be under way at once, of different
// classes: what a flow model cannot say, how long a small call waits behind a large one, is said
// here.
//
// A put has a window of packets in the queues of its chip: the next one comes when one has left, so
// that the puts of a chip share its links.
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
  uint32_t traffic_class = 0;           // 0 first, up to kTrafficClasses - 1
  double start_s = 0;
};

// Switches that die, beside which there are others as near. Packets on their links, and in them,
// are lost; the chip that sent one sends it again `notice_s` later, and so much after the death
// nobody sends over them any more.
struct PacketLoss {
  std::vector<uint32_t> nodes;
  double at_s = 0;
  double notice_s = 0;
};

struct PacketOptions {
  double packet_bytes = 4096;
  uint32_t window = 8;  // packets
  // A class of weight 0 goes strictly before those behind it; others share what it leaves.
  std::array<double, kTrafficClasses> weights = {};
  uint64_t seed = 1;  // of the paths
  PacketLoss loss;
};

struct PacketOutcome {
  std::vector<double> seconds;     // of each call, from its start; infinite: not done
  std::vector<double> link_bytes;  // that crossed each link
  uint64_t packets = 0;            // times the links that they crossed
  uint64_t lost = 0;               // packets, each time
};

// Rank r is chip r.
PacketOutcome simulate_packets(std::span<const PacketCall> calls, const Topology& topology,
                               Routes& routes, const PacketOptions& options = {});

}  // namespace weft::collective
