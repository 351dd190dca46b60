// SPDX-License-Identifier: BSD-3-Clause
// See framing.hpp.
#include "providers/port/ethernet/framing.hpp"

namespace weft::port::ethernet {

engine::Path path_of(const wire::Outer& outer) noexcept {
  engine::Path path;
  path.source = outer.source;
  path.destination = outer.destination;
  path.source_port = outer.source_port;
  path.destination_port = outer.destination_port;
  path.traffic_class = outer.traffic_class;
  path.hop_limit = outer.hop_limit;
  path.vlan = outer.vlan;
  return path;
}

wire::Outer outer_of(const engine::TxFrame& frame, const Neighbours::Self& self,
                     const wire::MacAddress& to) noexcept {
  const engine::Path& path = *frame.path;
  wire::Outer outer;
  outer.mac_source = self.mac;
  outer.mac_destination = to;
  outer.vlan = self.vlan;
  outer.traffic_class = static_cast<uint8_t>((path.traffic_class & 0xFC) | frame.ecn);
  outer.hop_limit = path.hop_limit;
  outer.ip_id = frame.ip_id;
  outer.source = path.source;
  outer.destination = path.destination;
  outer.source_port = path.source_port;
  outer.destination_port = path.destination_port;
  return outer;
}

}  // namespace weft::port::ethernet
