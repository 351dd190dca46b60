// SPDX-License-Identifier: BSD-3-Clause
// `weft_switch demo`: two senders, one bottleneck, controllers side by side, all in this process.
#pragma once

#include "tools/switch/shape.hpp"

namespace weft::bench {

struct DemoOptions {
  std::vector<std::string> hosts = Shape().hosts;  // two senders, the receiver
  std::vector<std::string> controllers = {"hpcc", "dcqcn-paper"};
  uint32_t mbps = 100;     // of every cable; both senders begin at it
  double delay_us = 2000;  // of every cable, one way
  uint32_t mtu = 1024;
  double kmin_rtts = 0.02, kmax_rtts = 0.8, pmax = 0.01;  // ECN, in round trips of queue
  double warm_up_s = 2;
  double seconds = 4;  // measured
  uint32_t runs = 5;
  std::vector<std::string> keys;  // more keys of the senders' devices
};

int demo(const DemoOptions& options);

}  // namespace weft::bench
