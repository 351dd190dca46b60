// SPDX-License-Identifier: BSD-3-Clause
// The port auto: peers on this host in memory, all others by udp.
#include "lib/transport/port_kind.hpp"
#include "providers/port/auto/auto_port.hpp"

namespace weft::port {

static consteval transport::PortKind describe() {
  return {
      .default_device = "lo",
      .open = &open_auto_port,
      .further_keys = "udp",
      .order = 15,
      .tests = {.device = "lo", .shared = true},
  };
}
WEFT_PORT(auto, describe());

}  // namespace weft::port
