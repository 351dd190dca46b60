// SPDX-License-Identifier: BSD-3-Clause
// When a simulated host runs its engine: when a packet has come, when its wire is idle and it has
// something to send, and at the engine's deadlines.
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

  // The packet that has just arrived at its port.
  void receive(Station& station);
  // What is due, and what may be sent.
  void run(Station& station);
  // Asks for the next turn.
  void plan(Station& station);
  // Is this the wake-up that was planned last? An earlier one means nothing.
  bool begins(Station& station, const fabric::Packet& event) noexcept;

 private:
  bool send_one(Station& station);

  fabric::EventWheel& wheel_;
  fabric::Fabric& fabric_;
};

}  // namespace weft::sim::engines
