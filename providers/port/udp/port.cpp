// SPDX-License-Identifier: BSD-3-Clause
// The port udp: sockets of the kernel; works everywhere.
#include "lib/transport/port_kind.hpp"
#include "providers/port/udp/udp_port.hpp"

namespace weft::port {

static consteval transport::PortKind describe() {
  return {
      .default_device = "lo",
      .open = &open_udp_port,
      .rails = true,
      .engines = true,
      .order = 10,
      .tests = {.device = "lo", .shared = true, .rail = "lo"},
  };
}
WEFT_PORT(udp, describe());

}  // namespace weft::port
