// SPDX-License-Identifier: BSD-3-Clause
// Networks that are built from a few numbers. Hosts are always 0..n-1, switches follow.
#pragma once

#include <cstdint>

#include "lib/sim/fabric/topology.hpp"
#include "weft/result.hpp"

namespace weft::sim::scenario {

struct NetworkSize {
  uint32_t hosts = 0;        // star; leaf-spine: per leaf; dumbbell: per side
  uint32_t mbps = 100'000;   // of hosts' links
  uint32_t fabric_mbps = 0;  // between switches; 0: as the hosts'
  int64_t delay_ns = 1000;   // of every link
  uint32_t k = 0;            // fat-tree: ports of a switch (even); torus: nodes per dimension
  uint32_t leaves = 0;
  uint32_t spines = 0;
  uint32_t dimensions = 2;  // torus
};

// All hosts at one switch.
Result<fabric::Topology> make_star(const NetworkSize& size);
// Two switches with hosts, one link between them.
Result<fabric::Topology> make_dumbbell(const NetworkSize& size);
Result<fabric::Topology> make_leaf_spine(const NetworkSize& size);
// Three tiers of k-port switches: k^3 / 4 hosts.
Result<fabric::Topology> make_fat_tree(const NetworkSize& size);
// HPCC's simulation network: 320 hosts, 20 ToR, 20 Agg, 16 core (HPCC simulator).
Result<fabric::Topology> make_hpcc_320();
// HPCC's testbed: 32 servers of two 25G NICs, 4 ToR and 1 Agg with 100G uplinks (HPCC 5.1); each
// NIC is a host here.
Result<fabric::Topology> make_hpcc_testbed();
// A k-ary torus; each switch has one host.
Result<fabric::Topology> make_torus(const NetworkSize& size);

}  // namespace weft::sim::scenario
