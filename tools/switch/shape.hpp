// SPDX-License-Identifier: BSD-3-Clause
// What a switch of weft_switch is like, in the units of its command line.
#pragma once

#include <string>
#include <vector>

#include "lib/sim/frames/switch.hpp"

namespace weft::bench {

struct Shape {
  std::vector<std::string> hosts = {"127.9.0.1", "127.9.0.2", "127.9.0.3"};
  uint32_t mbps = 1000;                // of each port
  std::vector<std::string> port_mbps;  // "HOST=MBPS", of single ports
  double delay_us = 50;                // of each cable, one way
  double buffer_kb = 1024;
  double kmin_us = 100, kmax_us = 1000, pmax = 0.1;
  bool telemetry = true;
  double digest_rtt_us = 0;

  // The number of the host with this address; an error lists the hosts.
  Result<uint32_t> host(std::string_view address) const;
  Result<sim::SwitchOptions> options() const;
};

}  // namespace weft::bench
