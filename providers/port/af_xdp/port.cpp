// SPDX-License-Identifier: BSD-3-Clause
// The port af_xdp: frames past the stack of the kernel, through an XDP program.
#include "lib/transport/port_kind.hpp"
#include "providers/port/af_xdp/open.hpp"

namespace weft::port {

static consteval transport::PortKind describe() {
  return {
      .default_device = "eth0",
      .open = &open_af_xdp_port,
      .probe = &probe_af_xdp_port,
      .order = 40,
      .tests = {.device = "wire?", .veth_mtu = 3400},  // an XDP program takes little more
  };
}
WEFT_PORT(af_xdp, describe());

}  // namespace weft::port
