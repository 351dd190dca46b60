// SPDX-License-Identifier: BSD-3-Clause
// The port af_packet: raw frames on an interface of the kernel.
#include "lib/transport/port_kind.hpp"
#include "providers/port/af_packet/af_packet_port.hpp"

namespace weft::port {

static consteval transport::PortKind describe() {
  return {
      .default_device = "eth0",
      .open = &open_af_packet_port,
      .rails = true,
      .order = 30,
      .tests = {.device = "wire?", .brief = true},
  };
}
WEFT_PORT(af_packet, describe());

}  // namespace weft::port
