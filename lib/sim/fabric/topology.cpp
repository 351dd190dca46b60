// SPDX-License-Identifier: BSD-3-Clause
// Shortest paths: one breadth-first search per leaf switch. Hosts forward nothing.
#include "lib/sim/fabric/topology.hpp"

#include <algorithm>

#include "lib/base/check.hpp"

namespace weft::sim::fabric {
namespace {

constexpr uint16_t kFar = UINT16_MAX;

Error invalid(std::string text) { return Error{Code::invalid_argument, std::move(text)}; }

}  // namespace

Result<Topology> Topology::make(std::vector<Cable> cables) {
  if (cables.empty()) return invalid("the network has no links");
  Topology t;
  uint32_t nodes = 0;
  for (const Cable& cable : cables) {
    if (cable.a == cable.b)
      return invalid("node " + std::to_string(cable.a) + " is joined to itself");
    nodes = std::max({nodes, cable.a + 1, cable.b + 1});
    t.mbps_.insert(t.mbps_.end(), 2, cable.mbps);
  }
  if (nodes > 2 * cables.size())
    return invalid("node numbers must be 0..n-1 without holes; the largest is " +
                   std::to_string(nodes - 1) + " with " + std::to_string(cables.size()) + " links");
  t.cables_ = std::move(cables);
  t.first_port_.assign(nodes + 1, 0);
  t.index_ports();
  t.find_paths(std::vector<bool>(t.port_count()));
  Result<void> connected = t.check_connected();
  if (!connected) return connected.error();
  return t;
}

Topology Topology::without(const std::vector<bool>& dead) const {
  Topology live = *this;
  live.find_paths(dead);
  return live;
}

void Topology::index_ports() {
  const uint32_t nodes = node_count();
  for (uint32_t port = 0; port < port_count(); ++port) ++first_port_[from(port) + 1];
  for (uint32_t node = 0; node < nodes; ++node) first_port_[node + 1] += first_port_[node];
  port_list_.resize(port_count());
  std::vector<uint32_t> filled(first_port_.begin(), first_port_.end() - 1);
  for (uint32_t port = 0; port < port_count(); ++port) port_list_[filled[from(port)]++] = port;
  for (uint32_t node = 0; node < nodes; ++node) {
    if (!is_host(node)) continue;
    hosts_.push_back(node);
    nic_mbps_ = std::max(nic_mbps_, mbps(ports_of(node)[0]));
  }
}

void Topology::find_paths(const std::vector<bool>& dead) {
  const uint32_t nodes = node_count();
  leaf_index_.assign(nodes, kNone);
  leaf_of_.assign(nodes, kNone);
  leaves_.clear();
  next_offset_.clear();
  next_list_.clear();
  distance_.clear();
  diameter_ = 0;
  for (const uint32_t host : hosts_) {
    const uint32_t leaf = to(ports_of(host)[0]);
    leaf_of_[host] = leaf;
    if (leaf_index_[leaf] != kNone) continue;
    leaf_index_[leaf] = static_cast<uint32_t>(leaves_.size());
    leaves_.push_back(leaf);
  }
  std::vector<uint16_t> distance(nodes);
  next_offset_.push_back(0);
  for (const uint32_t leaf : leaves_) {
    search_from(leaf, dead, distance);
    for (uint32_t node = 0; node < nodes; ++node) {
      for (const uint32_t port : ports_of(node))
        if (node != leaf && !dead[port] && distance[to(port)] + 1 == distance[node])
          next_list_.push_back(port);
      next_offset_.push_back(static_cast<uint32_t>(next_list_.size()));
    }
    distance_.insert(distance_.end(), distance.begin(), distance.end());
  }
  for (const uint32_t a : leaves_)
    for (const uint32_t b : leaves_) {
      const uint16_t links = distance_[size_t{leaf_index_[a]} * nodes + b];
      if (links != kFar) diameter_ = std::max<uint32_t>(diameter_, links + 2u);
    }
}

Result<void> Topology::check_connected() const {
  for (const uint32_t leaf : leaves_)
    for (uint32_t node = 0; node < node_count(); ++node)
      if (distance_[size_t{leaf_index_[leaf]} * node_count() + node] == kFar && !is_host(node))
        return invalid("the network is not connected: no path from node " + std::to_string(node) +
                       " to node " + std::to_string(leaf));
  return {};
}

// Links to `leaf` from every node. Hosts are reached but not passed through.
void Topology::search_from(uint32_t leaf, const std::vector<bool>& dead,
                           std::vector<uint16_t>& distance) const {
  WEFT_DCHECK(distance.size() == node_count() && dead.size() == port_count());
  std::fill(distance.begin(), distance.end(), kFar);
  std::vector<uint32_t> reached = {leaf};
  distance[leaf] = 0;
  for (size_t i = 0; i < reached.size(); ++i) {
    const uint32_t node = reached[i];
    if (is_host(node) && node != leaf) continue;
    for (const uint32_t port : ports_of(node)) {
      const uint32_t next = to(port);
      if (dead[port] || distance[next] != kFar) continue;
      distance[next] = static_cast<uint16_t>(distance[node] + 1);
      reached.push_back(next);
    }
  }
}

Result<void> Topology::degrade(uint32_t from, uint32_t to, uint32_t mbps) {
  const uint32_t port = from < node_count() ? port_between(from, to) : kNone;
  if (port == kNone)
    return invalid("there is no link from node " + std::to_string(from) + " to node " +
                   std::to_string(to));
  mbps_[port] = mbps;
  return {};
}

uint32_t Topology::port_between(uint32_t from, uint32_t to_node) const noexcept {
  for (const uint32_t port : ports_of(from))
    if (to(port) == to_node) return port;
  return kNone;
}

std::span<const uint32_t> Topology::next_ports(uint32_t node, uint32_t host) const noexcept {
  WEFT_DCHECK(is_host(host) && node < node_count());
  const uint32_t port = ports_of(host)[0];
  const uint32_t leaf = leaf_of_[host];
  if (node == leaf) {
    // The last link: the leaf's port on the host's cable.
    const auto list = ports_of(leaf);
    return {std::find(list.begin(), list.end(), port ^ 1), 1};
  }
  const size_t row = size_t{leaf_index_[leaf]} * node_count() + node;
  return {next_list_.data() + next_offset_[row], next_offset_[row + 1] - next_offset_[row]};
}

uint32_t Topology::distance(uint32_t host_a, uint32_t host_b) const noexcept {
  WEFT_DCHECK(is_host(host_a) && is_host(host_b));
  if (leaf_of_[host_a] == host_b) return 1;
  const size_t row = size_t{leaf_index_[leaf_of_[host_b]]} * node_count();
  return distance_[row + leaf_of_[host_a]] + 2u;
}

}  // namespace weft::sim::fabric
