// SPDX-License-Identifier: BSD-3-Clause
// Exact limits by maximum flows.
#include "lib/collective/model/limits.hpp"

#include <algorithm>
#include <limits>

#include "lib/base/check.hpp"
#include "lib/collective/model/max_flow.hpp"

namespace weft::collective {
namespace {

constexpr double kTolerance = 1e-9;  // relative: a smaller shortage is a rounding error

double total_rate(const Topology& topology) {
  double total = 0;
  for (const NetworkLink& link : topology.links) total += link.bytes_per_s;
  return total;
}

// The capacity of the links that leave the nodes on the source side of the last flow.
double leaving(const Topology& topology, const MaxFlow& flow) {
  double rate = 0;
  for (const NetworkLink& link : topology.links)
    if (flow.on_source_side(link.from) && !flow.on_source_side(link.to)) rate += link.bytes_per_s;
  return rate;
}

std::vector<bool> chips_on_source_side(const Topology& topology, const MaxFlow& flow) {
  std::vector<bool> inside(topology.chips);
  for (uint32_t chip = 0; chip < topology.chips; ++chip) inside[chip] = flow.on_source_side(chip);
  return inside;
}

void add_links(MaxFlow& flow, const Topology& topology) {
  for (const NetworkLink& link : topology.links)
    flow.add_edge(link.from, link.to, link.bytes_per_s);
}

// What can leave each group of chips: `group` per chip, from 0 on.
double capacity_of_groups(const Topology& topology, const std::vector<uint32_t>& group,
                          uint32_t groups) {
  double sum = 0;
  for (uint32_t g = 0; g < groups; ++g) {
    Cut cut{"", std::vector<bool>(topology.chips)};
    for (uint32_t chip = 0; chip < topology.chips; ++chip) cut.inside[chip] = group[chip] == g;
    sum += capacity(topology, cut);
  }
  return sum;
}

// Renumbers groups from 0 on; returns how many there are.
uint32_t number_groups(std::vector<uint32_t>& group) {
  std::vector<uint32_t> known;
  for (uint32_t& of_chip : group) {
    auto found = std::find(known.begin(), known.end(), of_chip);
    if (found == known.end()) found = known.insert(known.end(), of_chip);
    of_chip = static_cast<uint32_t>(found - known.begin());
  }
  return static_cast<uint32_t>(known.size());
}

// Gomory and Hu's tree of least cuts between chips, by Gusfield's method: the least cut between two
// chips is the least on the path between them. `to`: per chip but the first, its neighbour.
struct CutTree {
  std::vector<uint32_t> to;
  std::vector<double> rate;
};
CutTree cut_tree(const Topology& topology) {
  CutTree tree{std::vector<uint32_t>(topology.chips, 0),
               std::vector<double>(topology.chips, std::numeric_limits<double>::infinity())};
  MaxFlow flow(topology.nodes);
  add_links(flow, topology);
  for (uint32_t chip = 1; chip < topology.chips; ++chip) {
    tree.rate[chip] = flow.run(chip, tree.to[chip]);
    for (uint32_t other = chip + 1; other < topology.chips; ++other)
      if (tree.to[other] == tree.to[chip] && flow.on_source_side(other)) tree.to[other] = chip;
  }
  return tree;
}

}  // namespace

Topology reversed(const Topology& topology) {
  Topology turned = topology;
  for (NetworkLink& link : turned.links) std::swap(link.from, link.to);
  return turned;
}

// Newton's method: a block rate is feasible if each chip can receive all blocks at once. Where it
// is not, the cut that shows it gives the next, smaller rate.
Limit gather_limit(const Topology& topology) {
  const uint32_t chips = topology.chips, source = topology.nodes;
  WEFT_DCHECK(chips >= 2);
  MaxFlow flow(topology.nodes + 1);
  add_links(flow, topology);
  std::vector<uint32_t> supply;
  for (uint32_t chip = 0; chip < chips; ++chip) supply.push_back(flow.add_edge(source, chip, 0));
  Limit limit{total_rate(topology), {}};
  for (uint32_t passed = 0, chip = 0; passed < chips; chip = (chip + 1) % chips) {
    for (const uint32_t edge : supply) flow.set_capacity(edge, limit.bytes_per_s);
    if (flow.run(source, chip) >= chips * limit.bytes_per_s * (1 - kTolerance)) {
      ++passed;
      continue;
    }
    passed = 0;
    limit.inside = chips_on_source_side(topology, flow);
    const auto inside = std::count(limit.inside.begin(), limit.inside.end(), true);
    WEFT_CHECK(inside > 0 && inside < chips);
    const double rate = leaving(topology, flow) / static_cast<double>(inside);
    WEFT_CHECK(rate < limit.bytes_per_s);
    limit.bytes_per_s = rate;
  }
  return limit;
}

Limit broadcast_limit(const Topology& topology, uint32_t root) {
  WEFT_DCHECK(root < topology.chips);
  MaxFlow flow(topology.nodes);
  add_links(flow, topology);
  Limit limit{std::numeric_limits<double>::infinity(), {}};
  for (uint32_t chip = 0; chip < topology.chips; ++chip) {
    if (chip == root) continue;
    const double rate = flow.run(root, chip);
    if (rate >= limit.bytes_per_s) continue;
    limit = {rate, chips_on_source_side(topology, flow)};
  }
  return limit;
}

// Partitions: each chip alone; each rack; and what is left when the tree of least cuts is cut at
// its smallest edges, one after another.
Limit all_reduce_limit(const Topology& topology) {
  const uint32_t chips = topology.chips;
  WEFT_DCHECK(chips >= 2);
  Limit limit{std::numeric_limits<double>::infinity(), {}};
  const auto try_groups = [&](std::vector<uint32_t> group) {
    const uint32_t groups = number_groups(group);
    if (groups < 2) return;
    const double rate = capacity_of_groups(topology, group, groups) / (2.0 * (groups - 1));
    if (rate >= limit.bytes_per_s) return;
    limit = {rate, {}, groups};
  };
  WEFT_DCHECK(topology.racks > 0 && chips % topology.racks == 0);
  std::vector<uint32_t> alone(chips), racks(chips), group(chips, 0);
  for (uint32_t chip = 0; chip < chips; ++chip) {
    alone[chip] = chip;
    racks[chip] = chip / (chips / topology.racks);
  }
  try_groups(alone);
  try_groups(racks);
  const CutTree tree = cut_tree(topology);
  std::vector<uint32_t> edges(alone.begin() + 1, alone.end());
  std::sort(edges.begin(), edges.end(),
            [&](uint32_t a, uint32_t b) { return tree.rate[a] < tree.rate[b]; });
  std::vector<bool> cut(chips);
  for (size_t i = 0; i + 1 < edges.size(); ++i) {
    cut[edges[i]] = true;
    if (tree.rate[edges[i + 1]] <= tree.rate[edges[i]] * (1 + kTolerance)) continue;
    for (uint32_t chip = 0; chip < chips; ++chip) {
      uint32_t top = chip;
      while (top != 0 && !cut[top]) top = tree.to[top];
      group[chip] = top;
    }
    try_groups(group);
  }
  return limit;
}

}  // namespace weft::collective
