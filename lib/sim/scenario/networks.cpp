// SPDX-License-Identifier: BSD-3-Clause
// The builders: each numbers its nodes and lists its cables.
#include "lib/sim/scenario/networks.hpp"

#include <string>
#include <vector>

namespace weft::sim::scenario {
namespace {

using fabric::Cable;
using fabric::Topology;

Error invalid(std::string text) { return Error{Code::invalid_argument, std::move(text)}; }

uint32_t fabric_rate(const NetworkSize& size) {
  return size.fabric_mbps != 0 ? size.fabric_mbps : size.mbps;
}

}  // namespace

Result<Topology> make_star(const NetworkSize& size) {
  if (size.hosts < 2) return invalid("hosts: a star has at least 2");
  std::vector<Cable> cables;
  for (uint32_t i = 0; i < size.hosts; ++i)
    cables.push_back({i, size.hosts, size.mbps, size.delay_ns});
  return Topology::make(std::move(cables));
}

Result<Topology> make_dumbbell(const NetworkSize& size) {
  if (size.hosts < 1) return invalid("hosts: a dumbbell has at least 1 on each side");
  const uint32_t left = 2 * size.hosts;
  std::vector<Cable> cables;
  for (uint32_t i = 0; i < 2 * size.hosts; ++i)
    cables.push_back({i, left + (i >= size.hosts), size.mbps, size.delay_ns});
  cables.push_back({left, left + 1, fabric_rate(size), size.delay_ns});
  return Topology::make(std::move(cables));
}

Result<Topology> make_leaf_spine(const NetworkSize& size) {
  if (size.hosts < 1 || size.leaves < 2 || size.spines < 1)
    return invalid("a leaf-spine network has hosts per leaf, 2 leaves or more, 1 spine or more");
  const uint32_t hosts = size.hosts * size.leaves;
  std::vector<Cable> cables;
  for (uint32_t i = 0; i < hosts; ++i)
    cables.push_back({i, hosts + i / size.hosts, size.mbps, size.delay_ns});
  for (uint32_t leaf = 0; leaf < size.leaves; ++leaf)
    for (uint32_t spine = 0; spine < size.spines; ++spine)
      cables.push_back(
          {hosts + leaf, hosts + size.leaves + spine, fabric_rate(size), size.delay_ns});
  return Topology::make(std::move(cables));
}

// Per pod k/2 ToRs and k/2 Aggs; Agg at position i of its pod is joined to cores i, i + k/2, ...
Result<Topology> make_fat_tree(const NetworkSize& size) {
  const uint32_t k = size.k;
  if (k < 2 || k % 2 != 0 || k > 128) return invalid("k: an even number, 2 to 128");
  const uint32_t half = k / 2;
  const uint32_t hosts = k * half * half;
  const uint32_t tors = hosts;
  const uint32_t aggs = tors + k * half;
  const uint32_t cores = aggs + k * half;
  std::vector<Cable> cables;
  for (uint32_t i = 0; i < hosts; ++i)
    cables.push_back({i, tors + i / half, size.mbps, size.delay_ns});
  for (uint32_t pod = 0; pod < k; ++pod)
    for (uint32_t tor = 0; tor < half; ++tor)
      for (uint32_t agg = 0; agg < half; ++agg)
        cables.push_back(
            {tors + pod * half + tor, aggs + pod * half + agg, fabric_rate(size), size.delay_ns});
  for (uint32_t agg = 0; agg < k * half; ++agg)
    for (uint32_t j = 0; j < half; ++j)
      cables.push_back(
          {aggs + agg, cores + agg % half + j * half, fabric_rate(size), size.delay_ns});
  return Topology::make(std::move(cables));
}

Result<Topology> make_hpcc_320() {
  std::vector<Cable> cables;
  for (uint32_t i = 0; i < 320; ++i) cables.push_back({i, 320 + i / 16, 100'000, 1000});
  for (uint32_t group = 0; group < 5; ++group)
    for (uint32_t tor = 0; tor < 4; ++tor)
      for (uint32_t agg = 0; agg < 4; ++agg)
        cables.push_back({320 + 4 * group + tor, 340 + 4 * group + agg, 400'000, 1000});
  for (uint32_t agg = 0; agg < 20; ++agg)
    for (uint32_t core = 0; core < 4; ++core)
      cables.push_back({340 + agg, 360 + 4 * (agg % 4) + core, 400'000, 1000});
  return Topology::make(std::move(cables));
}

// Unloaded RTTs of 5.4 us within a rack and 8.5 us across are host and switch time mostly; as link
// delays they are 1,200 ns at the hosts and 750 ns at the uplinks.
Result<Topology> make_hpcc_testbed() {
  std::vector<Cable> cables;
  for (uint32_t i = 0; i < 64; ++i) cables.push_back({i, 64 + i / 16, 25'000, 1200});
  for (uint32_t tor = 0; tor < 4; ++tor) cables.push_back({64 + tor, 68, 100'000, 750});
  return Topology::make(std::move(cables));
}

Result<Topology> make_torus(const NetworkSize& size) {
  if (size.k < 3 || size.dimensions < 1 || size.dimensions > 4)
    return invalid("a torus has k of 3 or more and 1 to 4 dimensions");
  uint32_t nodes = 1;
  for (uint32_t d = 0; d < size.dimensions; ++d) {
    if (nodes > (1u << 20) / size.k) return invalid("this torus has more than a million nodes");
    nodes *= size.k;
  }
  std::vector<Cable> cables;
  for (uint32_t node = 0; node < nodes; ++node) {
    cables.push_back({node, nodes + node, size.mbps, size.delay_ns});
    uint32_t step = 1;
    for (uint32_t d = 0; d < size.dimensions; ++d, step *= size.k) {
      const uint32_t digit = node / step % size.k;
      const uint32_t next = digit + 1 < size.k ? node + step : node - digit * step;
      cables.push_back({nodes + node, nodes + next, fabric_rate(size), size.delay_ns});
    }
  }
  return Topology::make(std::move(cables));
}

}  // namespace weft::sim::scenario
