// SPDX-License-Identifier: BSD-3-Clause
// The port local: an example of a port (docs/extending/port.md).
#include "lib/transport/port_kind.hpp"
#include "providers/port/local/local_port.hpp"

namespace weft::port {

static consteval transport::PortKind describe() {
  return {
      .default_device = "default",
      .open = &open_local_port,
      .tests = {.device = "*", .shared = true},
  };
}
WEFT_PORT(local, describe());

}  // namespace weft::port
