// SPDX-License-Identifier: BSD-3-Clause
// The choice of a way up. Other simulators hash otherwise: the same flow list gives the same
// distribution of paths there, not the same paths.
#include "lib/sim/fabric/spray.hpp"

#include "lib/base/random.hpp"

namespace weft::sim::fabric {
namespace {

uint64_t mix(uint64_t word) noexcept {
  word = (word ^ (word >> 32)) * 0xD6E8FEB86659FD93;
  word = (word ^ (word >> 32)) * 0xD6E8FEB86659FD93;
  return word ^ (word >> 32);
}

}  // namespace

SprayRoutes::SprayRoutes(const Topology& topology, uint64_t seed) : topology_(topology) {
  base::Random random(seed);
  for (uint32_t node = 0; node < topology.node_count(); ++node) salts_.push_back(random.next());
}

SprayRoutes::End SprayRoutes::end_of(uint32_t host) const {
  const uint32_t port = topology_.ports_of(host)[0];
  return {host, topology_.to(port), port ^ 1};
}

void SprayRoutes::set(uint32_t flow, uint32_t src, uint32_t dst) {
  ends_[flow] = {end_of(src), end_of(dst)};
}

uint32_t SprayRoutes::next(uint32_t node, const Packet& packet) const noexcept {
  const Ends& ends = ends_[packet.flow];
  const End& end = is_forward(packet.tag.event) ? ends.dst : ends.src;
  if (node == end.leaf) return end.port;
  const std::span<const uint32_t> ports = topology_.next_ports(node, end.host);
  if (ports.size() == 1) return ports[0];
  const uint64_t key = uint64_t{packet.flow} << 16 | (packet.entropy & kEntropyBits);
  return ports[(mix(key ^ salts_[node]) >> 32) * ports.size() >> 32];
}

}  // namespace weft::sim::fabric
