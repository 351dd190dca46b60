// SPDX-License-Identifier: BSD-3-Clause
// ECMP: every switch hashes for itself and takes the hash modulo the number of equal next hops.
// The order of next hops is that of the links in the topology; in other simulators it is another
// one, so the same flow list gives the same distribution of paths there, not the same paths.
#include "lib/sim/fabric/routes.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "lib/base/check.hpp"

namespace weft::sim::fabric {
namespace {

uint32_t mix(uint32_t hash, uint32_t word) noexcept {
  hash ^= std::rotl(word * 0xCC9E2D51u, 15) * 0x1B873593u;
  return std::rotl(hash, 13) * 5 + 0xE6546B64u;
}

// The node as an address, so that its bits are spread as in a real network.
uint32_t address_of(uint32_t node) noexcept {
  return 0x0B000001u + (node / 256) * 0x10000u + (node % 256) * 0x100u;
}

}  // namespace

uint32_t ecmp_hash(const FlowTuple& tuple, uint32_t seed) noexcept {
  uint32_t hash = mix(seed, address_of(tuple.src));
  hash = mix(hash, address_of(tuple.dst));
  hash = mix(hash, tuple.src_port | uint32_t{tuple.dst_port} << 16);
  hash ^= 12;  // the bytes hashed
  hash = (hash ^ (hash >> 16)) * 0x85EBCA6Bu;
  hash = (hash ^ (hash >> 13)) * 0xC2B2AE35u;
  return hash ^ (hash >> 16);
}

void RouteTable::resize(size_t flows) {
  set_stride();
  rows_.assign(flows * stride_, Topology::kNone);
  tuples_.resize(flows);
  given_.resize(flows);
}

// Rows of whole cache lines.
void RouteTable::set_stride() {
  stride_ = std::max({stride_, 16u, std::bit_ceil(2 * (topology_->diameter() + 1))});
}

// kNone: no route.
uint32_t RouteTable::pick(uint32_t node, const FlowTuple& tuple) const noexcept {
  const std::span<const uint32_t> ports = topology_->next_ports(node, tuple.dst);
  if (ports.empty()) return Topology::kNone;
  if (ports.size() == 1) return ports[0];
  // The switch's number is the seed (HPCC simulator); another run seed gives other paths.
  const uint32_t seed = node + static_cast<uint32_t>((seed_ - 1) * 0x9E3779B9u);
  return ports[ecmp_hash(tuple, seed) % ports.size()];
}

uint32_t RouteTable::next(uint32_t flow, uint32_t node, bool forward) const noexcept {
  WEFT_DCHECK(flow < tuples_.size());
  const FlowTuple& tuple = tuples_[flow];
  if (forward) return pick(node, tuple);
  return pick(node, {tuple.dst, tuple.src, tuple.dst_port, tuple.src_port});
}

// False if there is no route: the row is then unchanged.
bool RouteTable::walk(uint32_t* row, const FlowTuple& tuple) const {
  uint32_t node = tuple.src;
  uint32_t hops = 0;
  std::array<uint32_t, UINT8_MAX> path;
  while (node != tuple.dst) {
    WEFT_CHECK(hops < stride_ / 2 && hops < path.size());
    path[hops] = pick(node, tuple);
    if (path[hops] == Topology::kNone) return false;
    node = topology_->to(path[hops++]);
  }
  std::fill(std::copy_n(path.begin(), hops, row), row + stride_ / 2, Topology::kNone);
  return true;
}

void RouteTable::choose(uint32_t flow, const FlowTuple& tuple) {
  WEFT_DCHECK(flow < tuples_.size());
  uint32_t* const row = &rows_[size_t{flow} * stride_];
  tuples_[flow] = tuple;
  walk(row, tuple);
  walk(row + stride_ / 2, {tuple.dst, tuple.src, tuple.dst_port, tuple.src_port});
}

void RouteTable::reroute(const Topology& live) {
  topology_ = &live;
  const uint32_t before = stride_;
  const std::vector<uint32_t> old = std::move(rows_);
  set_stride();
  rows_.assign(tuples_.size() * stride_, Topology::kNone);
  for (uint32_t flow = 0; flow < tuples_.size(); ++flow) {
    const auto from = old.begin() + static_cast<ptrdiff_t>(size_t{flow} * before);
    uint32_t* const row = &rows_[size_t{flow} * stride_];
    std::copy_n(from, before / 2, row);
    std::copy_n(from + before / 2, before / 2, row + stride_ / 2);
    if (!given_[flow]) choose(flow, tuples_[flow]);
  }
}

Result<void> RouteTable::set(uint32_t flow, const FlowTuple& tuple,
                             std::span<const uint32_t> nodes) {
  if (nodes.size() < 2 || nodes.front() != tuple.src || nodes.back() != tuple.dst)
    return Error{Code::invalid_argument, "the path must begin at src and end at dst"};
  if (nodes.size() - 1 > stride_ / 2)
    return Error{Code::invalid_argument, "the path has " + std::to_string(nodes.size() - 1) +
                                             " links, at most " + std::to_string(stride_ / 2) +
                                             " are possible in this network"};
  tuples_[flow] = tuple;
  given_[flow] = true;
  uint32_t* const row = &rows_[size_t{flow} * stride_];
  for (size_t i = 0; i + 1 < nodes.size(); ++i) {
    const bool known = nodes[i] < topology_->node_count();
    row[i] = known ? topology_->port_between(nodes[i], nodes[i + 1]) : Topology::kNone;
    if (row[i] == Topology::kNone || (i > 0 && topology_->is_host(nodes[i])))
      return Error{Code::invalid_argument, "the path has no link from node " +
                                               std::to_string(nodes[i]) + " to node " +
                                               std::to_string(nodes[i + 1])};
  }
  // Each link's other port, last link first.
  const size_t links = nodes.size() - 1;
  for (size_t i = 0; i < links; ++i) row[stride_ / 2 + i] = row[links - 1 - i] ^ 1;
  return {};
}

std::span<const uint32_t> RouteTable::forward_path(uint32_t flow) const noexcept {
  const uint32_t* const row = &rows_[size_t{flow} * stride_];
  const uint32_t* const end = row + stride_ / 2;
  return {row, static_cast<size_t>(std::find(row, end, Topology::kNone) - row)};
}

}  // namespace weft::sim::fabric
