// SPDX-License-Identifier: BSD-3-Clause
// A network of chips as data: nodes (the chips first, then switches) and directed links. Routes,
// hop counts and the capacities of cuts are computed from it; nothing here knows a product's name.
// Traffic between two chips is split over all paths of fewest links, evenly at every node.
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

// Of a link, in each direction: active ones make up its rate.
struct Lanes {
  uint32_t active = 1;
  uint32_t redundant = 0;
};

// A part of the chips, against all others.
struct Cut {
  std::string name;
  std::vector<bool> inside;  // per chip
};

struct Topology {
  std::string name;
  uint32_t chips = 0;
  uint32_t nodes = 0;
  double link_s = 0;  // latency of the links that are joined from now on
  std::vector<NetworkLink> links;
  std::vector<Cut> cuts;
  std::vector<Dimension> dimensions;   // how the chips are numbered
  std::vector<std::string> media;      // of the links that join the chips of each dimension
  std::map<std::string, Lanes> lanes;  // by medium, where it is known
  uint32_t racks = 1;                  // of as many chips each, in the order of their numbers

  uint32_t add_node() { return nodes++; }
  void join(uint32_t a, uint32_t b, double bytes_per_s, const std::string& medium);  // both ways
};

// A torus; every dimension has its own rate per link and direction (a dimension of two has two
// links between its two chips). Chips are numbered with the last dimension running fastest. Its
// cuts are the halves of each dimension.
struct TorusDimension {
  std::string name;
  uint32_t size = 0;
  double bytes_per_s = 0;
};
Topology make_torus(const std::vector<TorusDimension>& dimensions, double link_s);

// Racks of trays of chips. Chip i of a tray is on switch plane i % planes of its rack; chips of a
// tray are joined directly or by a tray switch; a cable goes to the same chip of the other rack.
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

// Domains of the same kind, whose chips are joined by rails: the chips of the same place in all
// domains meet in a network of their own, of several planes, over which their traffic is split.
struct Rails {
  uint32_t domains = 2;
  uint32_t planes = 1;
  uint32_t lost_planes = 0;
  double bytes_per_s = 0;  // per chip and direction, over all planes
  double link_s = 0;       // from a chip to a plane, and from there to a chip
};
Topology make_rails(const Topology& domain, const Rails& rails);

// How much of the traffic from one chip to another crosses a link.
struct RouteShare {
  uint32_t link = 0;
  double share = 0;
  double before_s = 0;  // mean latency from the chip to where the link begins
};
struct Route {
  std::vector<RouteShare> shares;
  uint32_t links = 0;    // crossed by every path
  double latency_s = 0;  // mean of the paths
};

class Routes {
 public:
  explicit Routes(const Topology& topology);
  // Made when first asked for. `along`: over the links of this dimension only, if it has paths that
  // are no longer than others.
  const Route& between(uint32_t from, uint32_t to, uint8_t along = kAnyWay);
  // Switches and chips between two chips.
  uint32_t hops(uint32_t from, uint32_t to) { return between(from, to).links - 1; }
  // Links from every node to a chip, over the fewest.
  const std::vector<uint32_t>& distances_to(uint32_t target, uint8_t along = kAnyWay);
  // `along`, or kAnyWay if it has no path, or only longer ones.
  uint8_t way(uint32_t from, uint32_t to, uint8_t along);
  // The links from a node that lie on a path of fewest links to a chip.
  std::vector<uint32_t> next_links(uint32_t node, uint32_t to, uint8_t along = kAnyWay);

 private:
  using Distances = std::vector<uint32_t>;
  bool is_along(uint32_t link, uint8_t along) const {
    return along == kAnyWay || dimension_[link] == along;
  }
  // Of all nodes, or in a large network of those on the way.
  const Distances& distances(uint32_t from, uint32_t to, uint8_t along);
  const Distances& near_distances(uint32_t target, uint32_t from, uint8_t along);
  std::vector<uint32_t> next_links(uint32_t node, const Distances& distance, uint8_t along) const;

  const Topology& topology_;
  std::vector<std::vector<uint32_t>> out_, in_;  // links per node
  std::vector<uint8_t> dimension_;               // per link
  // Per dimension, and for any way: per target chip: of every node.
  std::vector<std::vector<Distances>> distance_;
  Distances near_, touched_;  // of the target asked for last
  std::unordered_map<uint64_t, Route> routes_;
};

// A chip that has no way to the first one.
std::optional<uint32_t> chip_cut_off(const Topology& topology);

// The most that can flow from the chips inside to those outside, over all paths, in bytes/s.
double capacity(const Topology& topology, const Cut& cut);

}  // namespace weft::collective
