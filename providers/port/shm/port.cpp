// SPDX-License-Identifier: BSD-3-Clause
// The port shm: processes of one machine over shared memory.
#include "lib/transport/port_kind.hpp"
#include "providers/port/shm/shm_port.hpp"

namespace weft::port {

static consteval transport::PortKind describe() {
  return {
      .default_device = "default",
      .open = &open_shm_port,
      .order = 20,
      .tests = {.device = "*",
                .shared = true,
                .variant = "copied",
                .variant_keys = ",shm.by_reference=0"},
  };
}
WEFT_PORT(shm, describe());

}  // namespace weft::port
