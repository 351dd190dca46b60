// SPDX-License-Identifier: BSD-3-Clause
// When a simulated host runs its engine: on arrival of a packet, when its link is idle and frames
// are to be sent, and at the engine's deadlines.
#pragma once

#include "lib/sim/fabric/fabric.hpp"
#include "lib/sim/hosts/engine/nic_port.hpp"
#include "lib/sim/hosts/flow.hpp"
#include "lib/transport/machine.hpp"

namespace weft::sim::engines {

// A host as its turns see it.
struct Station {
  transport::Machine& engine;
  NicPort& port;
  const uint32_t number;  // of its port in the fabric
  int64_t wake_at = flow::kNever;
};

class Turns {
 public:
  Turns(fabric::EventWheel& wheel, fabric::Fabric& fabric) : wheel_(wheel), fabric_(fabric) {}

  // Gives the packet that has just arrived at its port to the engine.
  void receive(Station& station);
  // Runs expired timers, and transmits while the port has room.
  void run(Station& station);
  // Schedules the next turn.
  void plan(Station& station);
  // True if `event` is the valid wake-up; false if another one has replaced it.
  bool is_current(Station& station, const fabric::Packet& event) noexcept;

 private:
  bool send_one(Station& station);

  fabric::EventWheel& wheel_;
  fabric::Fabric& fabric_;
};

}  // namespace weft::sim::engines
