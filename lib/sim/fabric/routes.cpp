// SPDX-License-Identifier: BSD-3-Clause
// ECMP: every switch hashes for itself and takes the hash modulo the number of equal next hops.
// The order of next hops is that of the links in the topology; in other simulators it is another
// one, so the same flow list gives the same distribution of paths there, not the same paths.
#include "lib/sim/fabric/routes.hpp"

#include <algorithm>
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

uint32_t ecmp_hash(const FiveTuple& tuple, uint32_t seed) noexcept {
  uint32_t hash = mix(seed, address_of(tuple.src));
  hash = mix(hash, address_of(tuple.dst));
  hash = mix(hash, tuple.src_port | uint32_t{tuple.dst_port} << 16);
  hash ^= 12;  // the bytes hashed
  hash = (hash ^ (hash >> 16)) * 0x85EBCA6Bu;
  hash = (hash ^ (hash >> 13)) * 0xC2B2AE35u;
  return hash ^ (hash >> 16);
}

void RouteTable::resize(size_t flows) {
  // Rows of whole cache lines.
  stride_ = std::max(16u, std::bit_ceil(2 * (topology_.diameter() + 1)));
  rows_.assign(flows * stride_, Topology::kNone);
}

void RouteTable::walk(uint32_t* row, const FiveTuple& tuple) const {
  uint32_t node = tuple.src;
  for (uint32_t hop = 0; node != tuple.dst; ++hop) {
    WEFT_CHECK(hop < stride_ / 2);
    const std::span<const uint32_t> ports = topology_.next_ports(node, tuple.dst);
    size_t pick = 0;
    if (ports.size() > 1) {
      // The switch's number is the seed (facts 6.1 e); another run seed gives other paths.
      const uint32_t seed = node + static_cast<uint32_t>((seed_ - 1) * 0x9E3779B9u);
      pick = ecmp_hash(tuple, seed) % ports.size();
    }
    row[hop] = ports[pick];
    node = topology_.to(ports[pick]);
  }
}

void RouteTable::choose(uint32_t flow, const FiveTuple& tuple) {
  uint32_t* const row = &rows_[size_t{flow} * stride_];
  walk(row, tuple);
  walk(row + stride_ / 2, {tuple.dst, tuple.src, tuple.dst_port, tuple.src_port});
}

Result<void> RouteTable::set(uint32_t flow, const FiveTuple& tuple,
                             std::span<const uint32_t> nodes) {
  if (nodes.size() < 2 || nodes.front() != tuple.src || nodes.back() != tuple.dst)
    return Error{Code::invalid_argument, "the path must begin at src and end at dst"};
  if (nodes.size() - 1 > stride_ / 2)
    return Error{Code::invalid_argument, "the path has " + std::to_string(nodes.size() - 1) +
                                             " links, at most " + std::to_string(stride_ / 2) +
                                             " are possible in this network"};
  uint32_t* const row = &rows_[size_t{flow} * stride_];
  for (size_t i = 0; i + 1 < nodes.size(); ++i) {
    const bool known = nodes[i] < topology_.node_count();
    row[i] = known ? topology_.port_between(nodes[i], nodes[i + 1]) : Topology::kNone;
    if (row[i] == Topology::kNone || (i > 0 && topology_.is_host(nodes[i])))
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
