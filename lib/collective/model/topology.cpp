// SPDX-License-Identifier: BSD-3-Clause
// Builds networks, finds routes, and computes capacities of cuts.
#include "lib/collective/model/topology.hpp"

#include <algorithm>
#include <deque>
#include <limits>

#include "lib/base/check.hpp"
#include "lib/collective/model/max_flow.hpp"

namespace weft::collective {
namespace {

constexpr uint32_t kUnreachable = UINT32_MAX;
constexpr uint32_t kMaxFullTableChips = 2048;  // up to here all distances are kept

void add_single_chip_cut(Topology& topology) {
  Cut cut{"one chip", std::vector<bool>(topology.chips)};
  cut.inside[0] = true;
  topology.cuts.push_back(cut);
}

}  // namespace

void Topology::connect(uint32_t a, uint32_t b, double bytes_per_s, const std::string& medium) {
  WEFT_DCHECK(a < nodes && b < nodes && a != b && link_s >= 0);
  if (bytes_per_s <= 0) return;
  links.push_back({a, b, bytes_per_s, medium, link_s});
  links.push_back({b, a, bytes_per_s, medium, link_s});
}

Topology make_torus(const std::vector<TorusDimension>& dimensions, double link_s) {
  Topology topology;
  topology.link_s = link_s;
  topology.chips = 1;
  for (const TorusDimension& dimension : dimensions) topology.chips *= dimension.size;
  topology.nodes = topology.chips;
  add_single_chip_cut(topology);
  uint32_t stride = topology.chips;
  for (const TorusDimension& dimension : dimensions) {
    stride /= dimension.size;
    WEFT_DCHECK(dimension.size > 0 && stride > 0);
    topology.dimensions.push_back({dimension.size, dimension.bytes_per_s, true});
    topology.media.push_back(dimension.name);
    Cut half{"half of " + dimension.name, std::vector<bool>(topology.chips)};
    for (uint32_t chip = 0; chip < topology.chips; ++chip) {
      const uint32_t place = chip / stride % dimension.size;
      half.inside[chip] = place < dimension.size / 2;
      if (dimension.size == 1) continue;
      const uint32_t next = chip - place * stride + (place + 1) % dimension.size * stride;
      topology.connect(chip, next, dimension.bytes_per_s, dimension.name);
    }
    if (dimension.size > 1) topology.cuts.push_back(half);
  }
  return topology;
}

Topology make_switched_racks(const SwitchedRacks& r, double link_s) {
  Topology topology;
  topology.link_s = link_s;
  topology.chips = topology.nodes = r.racks * r.trays * r.chips_per_tray;
  add_single_chip_cut(topology);
  topology.racks = r.racks;
  topology.dimensions = {{r.racks, r.cross_rack, false},
                         {r.trays, r.backplane, false},
                         {r.chips_per_tray, r.tray, false}};
  topology.media = {"cross-rack", "backplane", "tray"};
  const uint32_t per_rack = r.trays * r.chips_per_tray;
  WEFT_DCHECK(r.planes > 0 && per_rack > 0);
  for (uint32_t rack = 0; rack < r.racks; ++rack) {
    std::vector<uint32_t> planes;
    for (uint32_t plane = 0; plane < r.planes; ++plane) planes.push_back(topology.add_node());
    for (uint32_t tray = 0; tray < r.trays; ++tray) {
      const uint32_t first = rack * per_rack + tray * r.chips_per_tray;
      const uint32_t tray_switch = r.tray_switch ? topology.add_node() : 0;
      for (uint32_t i = 0; i < r.chips_per_tray; ++i) {
        topology.connect(first + i, planes[i % r.planes], r.backplane, "backplane");
        if (r.tray_switch) topology.connect(first + i, tray_switch, r.tray, "tray");
        for (uint32_t j = 0; j < i && !r.tray_switch; ++j)
          topology.connect(first + i, first + j, r.tray / (r.chips_per_tray - 1), "tray");
      }
    }
  }
  if (r.racks < 2) return topology;
  Cut half{"first rack", std::vector<bool>(topology.chips)};
  for (uint32_t chip = 0; chip < per_rack; ++chip) {
    half.inside[chip] = true;
    for (uint32_t rack = 0; rack + 1 < r.racks; ++rack)
      topology.connect(rack * per_rack + chip, (rack + 1) * per_rack + chip, r.cross_rack,
                       "cross-rack");
  }
  topology.cuts.push_back(half);
  return topology;
}

Topology make_rails(const Topology& domain, const Rails& r) {
  const uint32_t m = domain.chips, switches = domain.nodes - m;
  WEFT_DCHECK(domain.nodes >= m);
  Topology topology;
  topology.link_s = r.link_s;
  topology.chips = r.domains * m;
  topology.nodes = topology.chips + r.domains * switches;
  topology.racks = r.domains;
  topology.dimensions = {{r.domains, r.bytes_per_s, false}};
  topology.dimensions.insert(topology.dimensions.end(), domain.dimensions.begin(),
                             domain.dimensions.end());
  topology.media = {"rail"};
  topology.media.insert(topology.media.end(), domain.media.begin(), domain.media.end());
  add_single_chip_cut(topology);
  if (r.domains > 1) {
    Cut first{"one domain", std::vector<bool>(topology.chips)};
    std::fill_n(first.inside.begin(), m, true);
    topology.cuts.push_back(first);
  }
  for (uint32_t d = 0; d < r.domains; ++d)
    for (const NetworkLink& link : domain.links) {
      const auto node = [&](uint32_t n) {
        return n < m ? d * m + n : topology.chips + d * switches + n - m;
      };
      NetworkLink copy = link;
      copy.from = node(link.from);
      copy.to = node(link.to);
      topology.links.push_back(copy);
    }
  for (uint32_t place = 0; place < m && r.domains > 1; ++place)
    for (uint32_t plane = r.lost_planes; plane < r.planes; ++plane) {
      const uint32_t hub = topology.add_node();
      for (uint32_t d = 0; d < r.domains; ++d)
        topology.connect(d * m + place, hub, r.bytes_per_s / r.planes, "rail");
    }
  return topology;
}

// ---- routes ----

Routes::Routes(const Topology& topology)
    : topology_(topology),
      out_(topology.nodes),
      in_(topology.nodes),
      link_dimension_(topology.links.size(), kAnyDimension),
      distance_(topology.media.size() + 1, std::vector<Distances>(topology.chips)),
      path_distance_(topology.nodes, kUnreachable) {
  for (uint32_t link = 0; link < topology.links.size(); ++link) {
    for (size_t d = 0; d < topology.media.size(); ++d)
      if (topology.media[d] == topology.links[link].medium)
        link_dimension_[link] = static_cast<uint8_t>(d);
    WEFT_DCHECK(topology.links[link].from < topology.nodes &&
                topology.links[link].to < topology.nodes);
    out_[topology.links[link].from].push_back(link);
    in_[topology.links[link].to].push_back(link);
  }
}

const std::vector<uint32_t>& Routes::distances_to(uint32_t target, uint8_t dimension) {
  const size_t kind = std::min<size_t>(dimension, topology_.media.size());
  WEFT_DCHECK(target < topology_.chips);
  Distances& distance = distance_[kind][target];
  if (!distance.empty()) return distance;
  distance.assign(topology_.nodes, kUnreachable);
  distance[target] = 0;
  std::deque<uint32_t> queue = {target};
  for (; !queue.empty(); queue.pop_front())
    for (const uint32_t link : in_[queue.front()]) {
      const uint32_t node = topology_.links[link].from;
      if (distance[node] != kUnreachable || !in_dimension(link, dimension)) continue;
      distance[node] = distance[queue.front()] + 1;
      queue.push_back(node);
    }
  return distance;
}

// Breadth-first search from the target until `from` is reached: in a large network few pairs of
// chips communicate, and a table of all distances would not fit in memory.
const Routes::Distances& Routes::distances_on_path(uint32_t target, uint32_t from,
                                                   uint8_t dimension) {
  for (const uint32_t node : path_nodes_) path_distance_[node] = kUnreachable;
  path_nodes_.assign(1, target);
  path_distance_[target] = 0;
  for (size_t next = 0; next < path_nodes_.size() && path_distance_[from] == kUnreachable; ++next)
    for (const uint32_t link : in_[path_nodes_[next]]) {
      const uint32_t node = topology_.links[link].from;
      if (path_distance_[node] != kUnreachable || !in_dimension(link, dimension)) continue;
      path_distance_[node] = path_distance_[path_nodes_[next]] + 1;
      path_nodes_.push_back(node);
    }
  return path_distance_;
}

const Routes::Distances& Routes::distances(uint32_t from, uint32_t to, uint8_t dimension) {
  return topology_.chips > kMaxFullTableChips ? distances_on_path(to, from, dimension)
                                              : distances_to(to, dimension);
}

uint8_t Routes::usable_dimension(uint32_t from, uint32_t to, uint8_t dimension) {
  if (dimension >= topology_.media.size()) return kAnyDimension;
  const uint32_t fewest = distances(from, to, kAnyDimension)[from];
  return distances(from, to, dimension)[from] == fewest ? dimension : kAnyDimension;
}

std::vector<uint32_t> Routes::next_links(uint32_t node, uint32_t to, uint8_t dimension) {
  return next_links(node, distances_to(to, dimension), dimension);
}

std::vector<uint32_t> Routes::next_links(uint32_t node, const Distances& distance,
                                         uint8_t dimension) const {
  std::vector<uint32_t> links;
  for (const uint32_t link : out_[node])
    if (in_dimension(link, dimension) && distance[node] != kUnreachable &&
        distance[topology_.links[link].to] + 1 == distance[node])
      links.push_back(link);
  return links;
}

const Route& Routes::between(uint32_t from, uint32_t to, uint8_t dimension) {
  Route& route = routes_[uint64_t{dimension} << 48 | uint64_t{from} << 24 | to];
  if (!route.shares.empty() || from == to) return route;
  dimension = usable_dimension(from, to, dimension);
  const Distances& distance = distances(from, to, dimension);
  route.links = distance[from];
  // Node by node in the order of distance, splits the share that has reached it over its links.
  struct Reached {
    uint32_t node;
    double share, weighted_s;  // latency up to this node, times the share
  };
  std::vector<Reached> frontier = {{from, 1.0, 0.0}};
  for (uint32_t remaining = distance[from]; remaining > 0; --remaining) {
    std::vector<Reached> next;
    for (const auto& [node, share, weighted_s] : frontier) {
      const std::vector<uint32_t> links = next_links(node, distance, dimension);
      WEFT_DCHECK(!links.empty() && share > 0);
      const double part = share / static_cast<double>(links.size());
      const double before_s = weighted_s / share;
      for (const uint32_t link : links) {
        route.shares.push_back({link, part, before_s});
        const double latency_s = topology_.links[link].latency_s;
        route.latency_s += part * latency_s;
        const uint32_t reached = topology_.links[link].to;
        auto known = std::find_if(next.begin(), next.end(),
                                  [&](const Reached& n) { return n.node == reached; });
        if (known == next.end()) known = next.insert(known, {reached, 0, 0});
        known->share += part;
        known->weighted_s += part * (before_s + latency_s);
      }
    }
    frontier.swap(next);
  }
  WEFT_DCHECK(frontier.size() == 1 && frontier[0].node == to && route.latency_s >= 0);
  return route;
}

// ---- cuts ----

std::optional<uint32_t> unreachable_chip(const Topology& topology) {
  Routes routes(topology);
  const std::vector<uint32_t>& distance = routes.distances_to(0);
  for (uint32_t chip = 0; chip < topology.chips; ++chip)
    if (distance[chip] == kUnreachable) return chip;
  return std::nullopt;
}

double capacity(const Topology& topology, const Cut& cut) {
  const uint32_t source = topology.nodes, target = topology.nodes + 1;
  MaxFlow flow(topology.nodes + 2);
  double total = 0;
  for (const NetworkLink& link : topology.links) {
    flow.add_edge(link.from, link.to, link.bytes_per_s);
    total += link.bytes_per_s;
  }
  WEFT_DCHECK(cut.inside.size() == topology.chips);
  for (uint32_t chip = 0; chip < topology.chips; ++chip)
    cut.inside[chip] ? flow.add_edge(source, chip, total) : flow.add_edge(chip, target, total);
  return flow.run(source, target);
}

}  // namespace weft::collective
