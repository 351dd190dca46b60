// SPDX-License-Identifier: BSD-3-Clause
// The choice of an uplink. Other simulators hash otherwise: the same flow list gives the same
// distribution of paths there, not the same paths.
#include "lib/sim/fabric/spray.hpp"

#include <algorithm>

#include "lib/base/check.hpp"
#include "lib/base/random.hpp"

namespace weft::sim::fabric {
namespace {

uint64_t mix(uint64_t word) noexcept {
  word = (word ^ (word >> 32)) * 0xD6E8FEB86659FD93;
  word = (word ^ (word >> 32)) * 0xD6E8FEB86659FD93;
  return word ^ (word >> 32);
}

}  // namespace

SprayRoutes::SprayRoutes(const Topology& topology, uint64_t seed) : topology_(&topology) {
  base::Random random(seed);
  column_.assign(topology.node_count(), 0);
  for (uint32_t node = 0; node < topology.node_count(); ++node) {
    salts_.push_back(random.next());
    if (topology.is_host(node)) continue;
    column_[node] = static_cast<uint32_t>(switches_.size());
    switches_.push_back(node);
  }
  find_leaves();
  reroute(topology);
}

void SprayRoutes::find_leaves() {
  leaf_rows_.assign(topology_->node_count(), Topology::kNone);
  for (const uint32_t host : topology_->hosts()) {
    uint32_t& row = leaf_rows_[end_of(host).leaf];
    if (row != Topology::kNone) continue;
    row = static_cast<uint32_t>(some_host_.size() * switches_.size());
    some_host_.push_back(host);
  }
}

void SprayRoutes::reroute(const Topology& live) {
  topology_ = &live;
  lists_.clear();
  next_.assign(some_host_.size() * switches_.size(), 0);
  for (const uint32_t node : switches_) {
    for (const uint32_t host : some_host_) {
      const End end = end_of(host);
      if (node != end.leaf) next_[end.row + column_[node]] = entry_for(live.next_ports(node, host));
    }
  }
}

// The entry of next_ for these ports. The list made last is used again if it is the same.
uint32_t SprayRoutes::entry_for(std::span<const uint32_t> ports) {
  if (ports.empty()) return Topology::kNone;
  if (ports.size() == 1) return ports[0] | kOne;
  const size_t length = ports.size() + 1;
  const size_t last = lists_.size() - std::min(lists_.size(), length);
  if (lists_.size() < length || lists_[last] != ports.size() ||
      !std::equal(ports.begin(), ports.end(), lists_.begin() + static_cast<ptrdiff_t>(last) + 1)) {
    lists_.push_back(static_cast<uint32_t>(ports.size()));
    lists_.insert(lists_.end(), ports.begin(), ports.end());
  }
  return static_cast<uint32_t>(lists_.size() - length);
}

SprayRoutes::End SprayRoutes::end_of(uint32_t host) const {
  const uint32_t port = topology_->ports_of(host)[0];
  const uint32_t leaf = topology_->to(port);
  return {leaf, port ^ 1, leaf_rows_[leaf]};
}

void SprayRoutes::set(uint32_t flow, uint32_t src, uint32_t dst) {
  ends_[flow] = {end_of(src), end_of(dst)};
}

uint32_t SprayRoutes::next(uint32_t node, const Packet& packet) const noexcept {
  WEFT_DCHECK(packet.flow < ends_.size());
  const Ends& ends = ends_[packet.flow];
  const End& end = is_forward(packet.tag.event) ? ends.dst : ends.src;
  if (node == end.leaf) return end.port;
  const uint32_t entry = next_[end.row + column_[node]];
  if (entry == Topology::kNone) return entry;
  if ((entry & kOne) != 0) return entry & ~kOne;
  const uint32_t* const list = &lists_[entry];
  WEFT_DCHECK(list[0] > 1 && entry + list[0] < lists_.size());
  const uint64_t key = uint64_t{packet.flow} << 16 | (packet.entropy & kEntropyBits);
  return list[1 + ((mix(key ^ salts_[node]) >> 32) * list[0] >> 32)];
}

}  // namespace weft::sim::fabric
