// SPDX-License-Identifier: BSD-3-Clause
// The path of each flow: chosen once, hop by hop, by a hash of its addresses and ports seeded with
// the switch, as per-flow ECMP does, or given by the user. A row holds the ports of the forward and
// of the reverse path; in ordinary fabrics a row is one cache line.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/base/check.hpp"
#include "lib/sim/fabric/topology.hpp"
#include "weft/result.hpp"

namespace weft::sim::fabric {

struct FlowTuple {
  uint32_t src = 0;  // nodes
  uint32_t dst = 0;
  uint16_t src_port = 0;
  uint16_t dst_port = 0;
};

// MurmurHash3_x86_32 of 12 bytes: the addresses of both nodes and both ports.
uint32_t ecmp_hash(const FlowTuple& tuple, uint32_t seed) noexcept;

class RouteTable {
 public:
  RouteTable(const Topology& topology, uint64_t seed) : topology_(&topology), seed_(seed) {}
  RouteTable(const RouteTable&) = delete;
  RouteTable& operator=(const RouteTable&) = delete;

  void resize(size_t flows);
  // Both paths by ECMP. An acknowledgement is hashed with its own, swapped, ports.
  void choose(uint32_t flow, const FlowTuple& tuple);
  // As given: the nodes from source to destination, and the same ones back.
  Result<void> set(uint32_t flow, const FlowTuple& tuple, std::span<const uint32_t> nodes);

  // Chooses again for every flow whose path was not given, in the network as it is now. A flow that
  // has no route keeps its path.
  void reroute(const Topology& live);

  // The port that a packet leaves its `hop`th node through (0: the NIC).
  uint32_t forward(uint32_t flow, uint32_t hop) const noexcept {
    WEFT_DCHECK(hop < stride_ / 2);
    return rows_[size_t{flow} * stride_ + hop];
  }
  uint32_t backward(uint32_t flow, uint32_t hop) const noexcept {
    WEFT_DCHECK(hop < stride_ / 2);
    return rows_[size_t{flow} * stride_ + stride_ / 2 + hop];
  }
  // The port that a packet of the flow leaves `node` through, a switch that is on no path of the
  // flow; kNone if there is no route.
  uint32_t next(uint32_t flow, uint32_t node, bool forward) const noexcept;
  const FlowTuple& tuple(uint32_t flow) const noexcept { return tuples_[flow]; }
  uint32_t most_hops() const noexcept { return stride_ / 2; }
  // The ports of the forward path.
  std::span<const uint32_t> forward_path(uint32_t flow) const noexcept;

 private:
  bool walk(uint32_t* row, const FlowTuple& tuple) const;
  uint32_t pick(uint32_t node, const FlowTuple& tuple) const noexcept;
  void set_stride();

  const Topology* topology_;
  const uint64_t seed_;
  uint32_t stride_ = 0;
  std::vector<uint32_t> rows_;
  std::vector<FlowTuple> tuples_;  // by flow
  std::vector<bool> given_;        // by flow: the user's path
};

}  // namespace weft::sim::fabric
