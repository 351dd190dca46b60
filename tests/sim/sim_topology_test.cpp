// SPDX-License-Identifier: BSD-3-Clause
// Networks: who is a host, which ports lie on shortest paths, how ECMP spreads flows, what is said
// about networks and paths that cannot be.
#include <map>
#include <set>

#include "lib/sim/fabric/routes.hpp"
#include "lib/sim/scheme/scheme.hpp"
#include "tests/sim/sim_support.hpp"

namespace weft::sim::fabric {
namespace {

TEST_CASE("a node with one link is a host, ports come in pairs") {
  const Topology topology = flow::leaf_spine(4);
  CHECK(topology.node_count() == 12);
  CHECK(topology.hosts().size() == 8);
  CHECK(topology.is_host(7));
  CHECK(!topology.is_host(8));
  CHECK(topology.nic_mbps() == 100'000);
  for (uint32_t port = 0; port < topology.port_count(); ++port)
    CHECK(topology.to(port) == topology.from(port ^ 1));
  CHECK(topology.distance(0, 1) == 2);
  CHECK(topology.distance(0, 5) == 4);
  CHECK(topology.diameter() == 4);
  // T: 8 us of links; 80 ns at each 100G link, 20 ns at each 400G one.
  CHECK(flow::largest_rtt_ns(topology, 1000) == 8200);
  CHECK(flow::largest_rtt_ns(flow::star(17), 1000) == 4160);
}

TEST_CASE("next ports are exactly those one step closer") {
  const Topology topology = flow::leaf_spine(4);
  const auto ports = topology.next_ports(8, 5);
  std::set<uint32_t> nodes;
  for (const uint32_t port : ports) nodes.insert(topology.to(port));
  CHECK(nodes == std::set<uint32_t>{10, 11});
  CHECK(topology.next_ports(9, 5).size() == 1);
  CHECK(topology.to(topology.next_ports(9, 5)[0]) == 5);
  CHECK(topology.to(topology.next_ports(0, 5)[0]) == 8);
}

TEST_CASE("ECMP keeps a flow on one path and spreads many over all, by seed") {
  const Topology topology = flow::leaf_spine(4);
  RouteTable routes(topology, 1);
  RouteTable other(topology, 2);
  constexpr int kFlows = 4000;
  routes.resize(kFlows);
  other.resize(kFlows);
  std::map<uint32_t, int> by_spine;
  int same_way_back = 0;
  int same_by_seed = 0;
  for (uint32_t flow = 0; flow < uint32_t{kFlows}; ++flow) {
    const FlowTuple tuple{0, 5, static_cast<uint16_t>(10'000 + flow), 100};
    routes.choose(flow, tuple);
    other.choose(flow, tuple);
    REQUIRE(routes.forward_path(flow).size() == 4);
    const uint32_t spine = topology.to(routes.forward(flow, 1));
    ++by_spine[spine];
    same_way_back += topology.to(routes.backward(flow, 1)) == spine;
    same_by_seed += topology.to(other.forward(flow, 1)) == spine;
    CHECK(topology.to(routes.backward(flow, 3)) == 0);
  }
  CHECK(by_spine.size() == 2);
  for (const int count : {by_spine[10], same_way_back, same_by_seed}) {
    CHECK(count > kFlows / 2 - 200);
    CHECK(count < kFlows / 2 + 200);
  }
}

TEST_CASE("a given path is followed, an invalid one refused") {
  const Topology topology = flow::leaf_spine(4);
  RouteTable routes(topology, 1);
  routes.resize(1);
  const FlowTuple tuple{0, 5, 1, 100};
  for (const uint32_t spine : {10u, 11u}) {
    REQUIRE(routes.set(0, tuple, std::vector<uint32_t>{0, 8, spine, 9, 5}));
    CHECK(topology.to(routes.forward(0, 1)) == spine);
    for (uint32_t hop = 0; hop < 4; ++hop)  // back through the same cables
      CHECK(routes.backward(0, hop) == (routes.forward(0, 3 - hop) ^ 1));
  }
  CHECK(!routes.set(0, tuple, std::vector<uint32_t>{0, 8, 9, 5}));
  CHECK(!routes.set(0, tuple, std::vector<uint32_t>{0, 8, 10, 9, 4}));
  CHECK(!routes.set(0, tuple, std::vector<uint32_t>{0, 8, 1, 9, 5}));
  CHECK(!routes.set(0, tuple, std::vector<uint32_t>{0, 8, 99, 9, 5}));
  CHECK(!routes.set(0, tuple, std::vector<uint32_t>{0}));
}

TEST_CASE("invalid networks are refused with the reason") {
  CHECK(!Topology::make({}));
  CHECK(Topology::make({{3, 3, 1000, 1}}).error().message.find("itself") != std::string::npos);
  CHECK(!Topology::make({{0, 1, 1000, 1}, {0, 2, 1000, 1}, {3, 4, 1000, 1}, {3, 5, 1000, 1}}));
  CHECK(Topology::make({{0, 100, 1000, 1}}).error().message.find("holes") != std::string::npos);
}

TEST_CASE("one direction of a link can be slower, the other keeps its rate") {
  Topology topology = flow::star(3);
  REQUIRE(topology.degrade(3, 0, 25'000));
  CHECK(topology.mbps(topology.port_between(3, 0)) == 25'000);
  CHECK(topology.mbps(topology.port_between(0, 3)) == 100'000);
  CHECK(!topology.degrade(0, 1, 25'000));
  CHECK(!topology.degrade(99, 1, 25'000));
}

}  // namespace
}  // namespace weft::sim::fabric
