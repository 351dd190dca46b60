// SPDX-License-Identifier: BSD-3-Clause
// Building networks, routing in them, and what their cuts carry.
#include "lib/collective/model/topology.hpp"

#include <algorithm>
#include <deque>
#include <limits>

namespace weft::collective {
namespace {

constexpr uint32_t kFar = UINT32_MAX;
constexpr uint32_t kMostFull = 2048;  // chips, up to which all distances are kept

void add_single_chip_cut(Topology& topology) {
  Cut cut{"one chip", std::vector<bool>(topology.chips)};
  cut.inside[0] = true;
  topology.cuts.push_back(cut);
}

}  // namespace

void Topology::join(uint32_t a, uint32_t b, double bytes_per_s, const std::string& medium) {
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
    topology.dimensions.push_back({dimension.size, dimension.bytes_per_s, true});
    topology.media.push_back(dimension.name);
    Cut half{"half of " + dimension.name, std::vector<bool>(topology.chips)};
    for (uint32_t chip = 0; chip < topology.chips; ++chip) {
      const uint32_t place = chip / stride % dimension.size;
      half.inside[chip] = place < dimension.size / 2;
      if (dimension.size == 1) continue;
      const uint32_t next = chip - place * stride + (place + 1) % dimension.size * stride;
      topology.join(chip, next, dimension.bytes_per_s, dimension.name);
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
  for (uint32_t rack = 0; rack < r.racks; ++rack) {
    std::vector<uint32_t> planes;
    for (uint32_t plane = 0; plane < r.planes; ++plane) planes.push_back(topology.add_node());
    for (uint32_t tray = 0; tray < r.trays; ++tray) {
      const uint32_t first = rack * per_rack + tray * r.chips_per_tray;
      const uint32_t tray_switch = r.tray_switch ? topology.add_node() : 0;
      for (uint32_t i = 0; i < r.chips_per_tray; ++i) {
        topology.join(first + i, planes[i % r.planes], r.backplane, "backplane");
        if (r.tray_switch) topology.join(first + i, tray_switch, r.tray, "tray");
        for (uint32_t j = 0; j < i && !r.tray_switch; ++j)
          topology.join(first + i, first + j, r.tray / (r.chips_per_tray - 1), "tray");
      }
    }
  }
  if (r.racks < 2) return topology;
  Cut half{"first rack", std::vector<bool>(topology.chips)};
  for (uint32_t chip = 0; chip < per_rack; ++chip) {
    half.inside[chip] = true;
    for (uint32_t rack = 0; rack + 1 < r.racks; ++rack)
      topology.join(rack * per_rack + chip, (rack + 1) * per_rack + chip, r.cross_rack,
                    "cross-rack");
  }
  topology.cuts.push_back(half);
  return topology;
}

Topology make_rails(const Topology& domain, const Rails& r) {
  const uint32_t m = domain.chips, switches = domain.nodes - m;
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
        topology.join(d * m + place, hub, r.bytes_per_s / r.planes, "rail");
    }
  return topology;
}

// ---- routes
// --------------------------------------------------------------------------------------

Routes::Routes(const Topology& topology)
    : topology_(topology),
      out_(topology.nodes),
      in_(topology.nodes),
      dimension_(topology.links.size(), kAnyWay),
      distance_(topology.media.size() + 1, std::vector<Distances>(topology.chips)),
      near_(topology.nodes, kFar) {
  for (uint32_t link = 0; link < topology.links.size(); ++link) {
    for (size_t d = 0; d < topology.media.size(); ++d)
      if (topology.media[d] == topology.links[link].medium)
        dimension_[link] = static_cast<uint8_t>(d);
    out_[topology.links[link].from].push_back(link);
    in_[topology.links[link].to].push_back(link);
  }
}

const std::vector<uint32_t>& Routes::distances_to(uint32_t target, uint8_t along) {
  const size_t kind = std::min<size_t>(along, topology_.media.size());
  Distances& distance = distance_[kind][target];
  if (!distance.empty()) return distance;
  distance.assign(topology_.nodes, kFar);
  distance[target] = 0;
  std::deque<uint32_t> queue = {target};
  for (; !queue.empty(); queue.pop_front())
    for (const uint32_t link : in_[queue.front()]) {
      const uint32_t node = topology_.links[link].from;
      if (distance[node] != kFar || !is_along(link, along)) continue;
      distance[node] = distance[queue.front()] + 1;
      queue.push_back(node);
    }
  return distance;
}

// The same for the nodes on the way from one chip only: in a large network few pairs of chips talk,
// and all distances to all of them would not fit in memory.
const Routes::Distances& Routes::near_distances(uint32_t target, uint32_t from, uint8_t along) {
  for (const uint32_t node : touched_) near_[node] = kFar;
  touched_.assign(1, target);
  near_[target] = 0;
  for (size_t next = 0; next < touched_.size() && near_[from] == kFar; ++next)
    for (const uint32_t link : in_[touched_[next]]) {
      const uint32_t node = topology_.links[link].from;
      if (near_[node] != kFar || !is_along(link, along)) continue;
      near_[node] = near_[touched_[next]] + 1;
      touched_.push_back(node);
    }
  return near_;
}

const Routes::Distances& Routes::distances(uint32_t from, uint32_t to, uint8_t along) {
  return topology_.chips > kMostFull ? near_distances(to, from, along) : distances_to(to, along);
}

uint8_t Routes::way(uint32_t from, uint32_t to, uint8_t along) {
  if (along >= topology_.media.size()) return kAnyWay;
  const uint32_t fewest = distances(from, to, kAnyWay)[from];
  return distances(from, to, along)[from] == fewest ? along : kAnyWay;
}

std::vector<uint32_t> Routes::next_links(uint32_t node, uint32_t to, uint8_t along) {
  return next_links(node, distances_to(to, along), along);
}

std::vector<uint32_t> Routes::next_links(uint32_t node, const Distances& distance,
                                         uint8_t along) const {
  std::vector<uint32_t> ways;
  for (const uint32_t link : out_[node])
    if (is_along(link, along) && distance[node] != kFar &&
        distance[topology_.links[link].to] + 1 == distance[node])
      ways.push_back(link);
  return ways;
}

const Route& Routes::between(uint32_t from, uint32_t to, uint8_t along) {
  Route& route = routes_[uint64_t{along} << 48 | uint64_t{from} << 24 | to];
  if (!route.shares.empty() || from == to) return route;
  along = way(from, to, along);
  const Distances& distance = distances(from, to, along);
  route.links = distance[from];
  // Nodes in the order of their distance, each passing on what has come to it.
  struct Here {
    uint32_t node;
    double share, weighted_s;  // the latency until here, times the share
  };
  std::vector<Here> here = {{from, 1.0, 0.0}};
  for (uint32_t left = distance[from]; left > 0; --left) {
    std::vector<Here> next;
    for (const auto& [node, share, weighted_s] : here) {
      const std::vector<uint32_t> ways = next_links(node, distance, along);
      const double part = share / static_cast<double>(ways.size());
      const double before_s = weighted_s / share;
      for (const uint32_t link : ways) {
        route.shares.push_back({link, part, before_s});
        const double latency_s = topology_.links[link].latency_s;
        route.latency_s += part * latency_s;
        const uint32_t reached = topology_.links[link].to;
        auto known = std::find_if(next.begin(), next.end(),
                                  [&](const Here& n) { return n.node == reached; });
        if (known == next.end()) known = next.insert(known, {reached, 0, 0});
        known->share += part;
        known->weighted_s += part * (before_s + latency_s);
      }
    }
    here.swap(next);
  }
  return route;
}

// ---- cuts
// ----------------------------------------------------------------------------------------

std::optional<uint32_t> chip_cut_off(const Topology& topology) {
  Routes routes(topology);
  const std::vector<uint32_t>& distance = routes.distances_to(0);
  for (uint32_t chip = 0; chip < topology.chips; ++chip)
    if (distance[chip] == kFar) return chip;
  return std::nullopt;
}

// Maximum flow by shortest augmenting paths (Edmonds, Karp). Graphs here are small.
double capacity(const Topology& topology, const Cut& cut) {
  const uint32_t source = topology.nodes, target = topology.nodes + 1;
  struct Edge {
    uint32_t to;
    double left;
    size_t back;
  };
  std::vector<std::vector<Edge>> edges(topology.nodes + 2);
  const auto add = [&](uint32_t a, uint32_t b, double bytes_per_s) {
    edges[a].push_back({b, bytes_per_s, edges[b].size()});
    edges[b].push_back({a, 0, edges[a].size() - 1});
  };
  double total = 0;
  for (const NetworkLink& link : topology.links) {
    add(link.from, link.to, link.bytes_per_s);
    total += link.bytes_per_s;
  }
  for (uint32_t chip = 0; chip < topology.chips; ++chip)
    cut.inside[chip] ? add(source, chip, total) : add(chip, target, total);
  double flow = 0;
  while (true) {
    std::vector<Edge*> came(edges.size(), nullptr);
    std::deque<uint32_t> queue = {source};
    for (; !queue.empty() && came[target] == nullptr; queue.pop_front())
      for (Edge& edge : edges[queue.front()])
        if (edge.left > total * 1e-12 && edge.to != source && came[edge.to] == nullptr) {
          came[edge.to] = &edge;
          queue.push_back(edge.to);
        }
    if (came[target] == nullptr) return flow;
    const auto before = [&](uint32_t node) { return edges[node][came[node]->back].to; };
    double step = std::numeric_limits<double>::infinity();
    for (uint32_t node = target; node != source; node = before(node))
      step = std::min(step, came[node]->left);
    for (uint32_t node = target; node != source;) {
      const uint32_t previous = before(node);
      came[node]->left -= step;
      edges[node][came[node]->back].left += step;
      node = previous;
    }
    flow += step;
  }
}

}  // namespace weft::collective
