// SPDX-License-Identifier: BSD-3-Clause
// A network of chips: nodes (the chips first, then switches) and directed links. Routes, hop counts
// and capacities of cuts are computed from it. Traffic between two chips is split over all shortest
// paths, evenly at every node.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "lib/collective/plan/schedule.hpp"

namespace weft::collective {

struct NetworkLink {
  uint32_t from = 0;
  uint32_t to = 0;
  double bytes_per_s = 0;
  std::string medium;  // "backplane", "x"
  double latency_s = 0;
};

// Lanes of a link, per direction: the active ones make up its rate (lanes.hpp).
struct Lanes {
  uint32_t active = 1;
  uint32_t redundant = 0;
};

// A partition of the chips into two sides.
struct Cut {
  std::string name;
  std::vector<bool> inside;  // per chip
};

struct Topology {
  std::string name;
  uint32_t chips = 0;
  uint32_t nodes = 0;
  double link_s = 0;  // latency of links that connect() adds
  std::vector<NetworkLink> links;
  std::vector<Cut> cuts;
  std::vector<Dimension> dimensions;   // how the chips are numbered
  std::vector<std::string> media;      // medium of the links of each dimension
  std::map<std::string, Lanes> lanes;  // by medium, if known
  uint32_t racks = 1;                  // of equally many consecutive chips

  uint32_t add_node() { return nodes++; }
  void connect(uint32_t a, uint32_t b, double bytes_per_s, const std::string& medium);  // both ways
};

// A torus; every dimension has its own rate per link and direction (a dimension of size two has two
// links between its two chips). The last dimension of the chip numbers runs fastest. Cuts: one
// chip, and half of each dimension.
struct TorusDimension {
  std::string name;
  uint32_t size = 0;
  double bytes_per_s = 0;
};
Topology make_torus(const std::vector<TorusDimension>& dimensions, double link_s);

// Racks of trays of chips. Chip i of a tray is on switch plane i % planes of its rack; the chips of
// a tray are connected directly or by a tray switch; a cable connects each chip to the same chip of
// the next rack.
struct SwitchedRacks {
  uint32_t racks = 2;
  uint32_t trays = 16;  // per rack
  uint32_t chips_per_tray = 2;
  uint32_t planes = 2;
  double backplane = 0;  // bytes/s per chip and direction
  double tray = 0;
  double cross_rack = 0;
  bool tray_switch = false;
};
Topology make_switched_racks(const SwitchedRacks& racks, double link_s);

// Equal domains connected by rails: the chips of the same place in all domains share a network of
// several planes, over which their traffic is split.
struct Rails {
  uint32_t domains = 2;
  uint32_t planes = 1;
  uint32_t lost_planes = 0;
  double bytes_per_s = 0;  // per chip and direction, over all planes
  double link_s = 0;       // latency from a chip to a plane, and from a plane to a chip
};
Topology make_rails(const Topology& domain, const Rails& rails);

// The share of the traffic between two chips that crosses a link.
struct RouteShare {
  uint32_t link = 0;
  double share = 0;
  double before_s = 0;  // mean latency from the source chip to the start of the link
};
struct Route {
  std::vector<RouteShare> shares;
  uint32_t links = 0;    // on every path
  double latency_s = 0;  // mean of the paths
};

class Routes {
 public:
  explicit Routes(const Topology& topology);
  // Computed on first use. With `dimension`: over the links of this dimension only, if it has a
  // shortest path.
  const Route& between(uint32_t from, uint32_t to, uint8_t dimension = kAnyDimension);
  // The number of switches and chips between two chips.
  uint32_t hops(uint32_t from, uint32_t to) { return between(from, to).links - 1; }
  // Per node: links on a shortest path to a chip.
  const std::vector<uint32_t>& distances_to(uint32_t target, uint8_t dimension = kAnyDimension);
  // `dimension`, or kAnyDimension if it has no shortest path.
  uint8_t usable_dimension(uint32_t from, uint32_t to, uint8_t dimension);
  // The links from a node on shortest paths to a chip.
  std::vector<uint32_t> next_links(uint32_t node, uint32_t to, uint8_t dimension = kAnyDimension);

 private:
  using Distances = std::vector<uint32_t>;
  bool in_dimension(uint32_t link, uint8_t dimension) const {
    return dimension == kAnyDimension || link_dimension_[link] == dimension;
  }
  // Distances to `to`, of all nodes or, in large networks, of the nodes up to `from`.
  const Distances& distances(uint32_t from, uint32_t to, uint8_t dimension);
  const Distances& distances_on_path(uint32_t target, uint32_t from, uint8_t dimension);
  std::vector<uint32_t> next_links(uint32_t node, const Distances& distance,
                                   uint8_t dimension) const;

  const Topology& topology_;
  std::vector<std::vector<uint32_t>> out_, in_;  // links per node
  std::vector<uint8_t> link_dimension_;          // per link
  // Per dimension (the last entry: any dimension), per target chip, per node.
  std::vector<std::vector<Distances>> distance_;
  Distances path_distance_, path_nodes_;  // of the last distances_on_path()
  std::unordered_map<uint64_t, Route> routes_;
};

// A chip without a path to chip 0, if there is one.
std::optional<uint32_t> unreachable_chip(const Topology& topology);

// The maximum flow from the chips inside to those outside, in bytes/s.
double capacity(const Topology& topology, const Cut& cut);

}  // namespace weft::collective
