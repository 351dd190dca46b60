// SPDX-License-Identifier: BSD-3-Clause
// The port dpdk: physical and virtual interfaces through the drivers of DPDK.
#include "lib/transport/port_kind.hpp"
#include "providers/port/dpdk/open.hpp"

namespace weft::port {

static consteval transport::PortKind describe() {
  return {
      .default_device = "net_null",
      .open = &open_dpdk_port,
      .engines = true,
      .order = 50,
      .tests = {.device = "net_memif,dpdk.socket=/tmp/weft-*"},
  };
}
WEFT_PORT(dpdk, describe());

}  // namespace weft::port
