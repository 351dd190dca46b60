// SPDX-License-Identifier: BSD-3-Clause
// What one seed of the swarm is: machines, cables, faults, connections of all services and what
// they do, all drawn from the seed. Each kind of fault is on or off by its own coin, so that a
// fault is also seen alone.
#pragma once

#include <vector>

#include "providers/port/middleware/fault_options.hpp"
#include "tests/virtual_time/world.hpp"

namespace weft::test {

struct SwarmConnection {
  uint32_t a = 0, b = 0;  // stations; may be the same one
  ConnectOptions connect;
  transport::QpConfig qp;                 // of both ends
  uint32_t largest = 4096;                // bytes of a message
  uint32_t depth = 8;                     // requests outstanding
  uint32_t receives = 8;                  // receives posted at once
  Duration think = Duration::from_us(5);  // mean time between two looks at a queue
  uint32_t weights[8] = {};               // of the opcodes
  uint32_t unsignaled_ppm = 0;
  uint32_t bad_ppm = 0;  // requests that must fail
  bool xrc = false;      // a is an initiator, b a target; else `qp` says the service
  bool shares = false;   // UC, UD: both ends take receives from pools of their stations
};

struct SwarmConfig {
  uint64_t seed = 0;
  std::vector<StationOptions> stations;
  std::vector<middleware::FaultOptions> faults;  // one per station
  std::vector<sim::LinkOptions> cables;          // one per pair of stations
  std::vector<SwarmConnection> connections;      // RC, XRC
  std::vector<SwarmConnection> unreliable;       // UC, UD
  uint64_t packets = 0;                          // to be posted, about
  bool faulty = false;                           // any fault at all
  bool links_fail = false;                       // LinkFault, too
};

SwarmConfig draw_swarm(uint64_t seed);

}  // namespace weft::test
