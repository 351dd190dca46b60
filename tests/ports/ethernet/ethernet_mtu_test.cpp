// SPDX-License-Identifier: BSD-3-Clause
// The path MTU that a port derives from an interface leaves room for the longest headers of its
// protocol.
#include "lib/wire/opcode.hpp"
#include "lib/wire/srd_headers.hpp"
#include "providers/port/ethernet/framing.hpp"
#include "tests/support/catch.hpp"

namespace weft::port::ethernet {

TEST_CASE("a packet of the path MTU fits the interface with the longest headers of its protocol") {
  struct {
    uint16_t udp_port;
    uint32_t headers;  // behind UDP
  } const protocols[] = {{4791, 12 + 4 + 16 + 4}, {wire::kSrdUdpPort, wire::kSrdLargestHeader}};
  for (const Gid& address : {*parse_gid("10.0.0.1"), *parse_gid("fe80::1")}) {
    const uint32_t ip = address.is_ipv4() ? 20 : 40;
    for (const auto& [udp_port, headers] : protocols) {
      const uint32_t around = ip + 8 + headers + wire::kIcrcLength;
      for (uint32_t payload = 256; payload <= 4096; payload *= 2) {
        INFO("UDP port " << udp_port << ", IP header " << ip << ", payload " << payload);
        const uint32_t fits = payload + around;
        CHECK(capabilities_of(address, fits, udp_port).active_mtu == payload);
        if (payload == 256) continue;
        CHECK(capabilities_of(address, fits - 1, udp_port).active_mtu == payload / 2);
      }
    }
  }
}

}  // namespace weft::port::ethernet
