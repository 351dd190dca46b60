// SPDX-License-Identifier: BSD-3-Clause
// The load that both simulators get: pairs of hosts over two switches, three links of 1 us one way.
// Every sender sends packets of 1,048 B at its link's rate, every receiver answers each with 60 B,
// the link between the switches has room for all. Nothing queues for long, nothing is lost: what is
// measured is the cost of a packet's path.
#pragma once

#include <cstdint>

namespace weft::bench {

struct Dumbbell {
  uint32_t pairs = 8;
  uint32_t host_mbps = 10'000;
  uint32_t middle_mbps = 100'000;
  int64_t delay_ns = 1000;
  uint32_t payload = 1000;
  uint32_t packet_bytes = 1048;
  uint32_t reply_bytes = 60;
  uint64_t packets_per_pair = 0;
};

struct Speed {
  uint64_t delivered = 0;  // data packets, end to end
  uint64_t events = 0;
  double seconds = 0;  // of processor time
};

// Of this thread.
double processor_seconds();

#if WEFT_HAVE_NS3
Speed run_ns3(const Dumbbell& dumbbell);
#endif

}  // namespace weft::bench
