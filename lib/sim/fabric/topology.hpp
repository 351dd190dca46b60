// SPDX-License-Identifier: BSD-3-Clause
// A network as a graph: nodes, full-duplex links, and the shortest paths in it. A node with one
// link is a host, every other one a switch. Each direction of a link is a port of the node that
// sends through it: link i has the ports 2i (a to b) and 2i + 1 (b to a), so `port ^ 1` is the
// same cable seen from the other end.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "weft/result.hpp"

namespace weft::sim::fabric {

struct Cable {
  uint32_t a = 0;
  uint32_t b = 0;
  uint32_t mbps = 0;
  int64_t delay_ns = 0;
};

class Topology {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  // Node numbers are 0..n-1 without holes. Fails on a network that is not connected or in which a
  // node is joined to itself.
  static Result<Topology> make(std::vector<Cable> cables);

  uint32_t node_count() const noexcept { return static_cast<uint32_t>(first_port_.size() - 1); }
  uint32_t port_count() const noexcept { return static_cast<uint32_t>(cables_.size() * 2); }
  bool is_host(uint32_t node) const noexcept { return ports_of(node).size() == 1; }
  std::span<const uint32_t> hosts() const noexcept { return hosts_; }
  std::span<const uint32_t> ports_of(uint32_t node) const noexcept {
    return {port_list_.data() + first_port_[node], first_port_[node + 1] - first_port_[node]};
  }
  const Cable& cable(uint32_t port) const noexcept { return cables_[port / 2]; }
  uint32_t from(uint32_t port) const noexcept {
    return port % 2 == 0 ? cable(port).a : cable(port).b;
  }
  uint32_t to(uint32_t port) const noexcept { return from(port ^ 1); }
  // The rate of one direction; it may be degraded.
  uint32_t mbps(uint32_t port) const noexcept { return mbps_[port]; }
  // Sets the rate of one direction from `from` to `to`. Routing does not look at rates.
  Result<void> degrade(uint32_t from, uint32_t to, uint32_t mbps);
  // The same network with paths that avoid dead links; `dead` is by port, equal for both
  // directions. A host that cannot be reached then has no next port.
  Topology without(const std::vector<bool>& dead) const;
  // The fastest NIC.
  uint32_t nic_mbps() const noexcept { return nic_mbps_; }

  // The ports of `node` that lie on a shortest path (by hops) to `host`.
  std::span<const uint32_t> next_ports(uint32_t node, uint32_t host) const noexcept;
  // The number of links between two hosts.
  uint32_t distance(uint32_t host_a, uint32_t host_b) const noexcept;
  uint32_t diameter() const noexcept { return diameter_; }
  // The port from one node to a neighbour, kNone if they are not joined.
  uint32_t port_between(uint32_t from, uint32_t to) const noexcept;

 private:
  void index_ports();
  void find_paths(const std::vector<bool>& dead);
  Result<void> check_connected() const;
  void search_from(uint32_t leaf, const std::vector<bool>& dead,
                   std::vector<uint16_t>& distance) const;

  std::vector<Cable> cables_;
  std::vector<uint32_t> mbps_;        // by port
  std::vector<uint32_t> first_port_;  // by node, into port_list_
  std::vector<uint32_t> port_list_;
  std::vector<uint32_t> hosts_;
  // Paths are kept per leaf, the switch (or host) that a host is connected to, not per host.
  std::vector<uint32_t> leaves_;
  std::vector<uint32_t> leaf_index_;   // by node: the leaf's row, kNone for other nodes
  std::vector<uint32_t> leaf_of_;      // by host: the node that it is connected to
  std::vector<uint32_t> next_offset_;  // row x nodes + node, into next_list_
  std::vector<uint32_t> next_list_;
  std::vector<uint16_t> distance_;  // row x nodes + node: links to the leaf
  uint32_t nic_mbps_ = 0;
  uint32_t diameter_ = 0;
};

}  // namespace weft::sim::fabric
