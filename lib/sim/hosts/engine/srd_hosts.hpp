// SPDX-License-Identifier: BSD-3-Clause
// Hosts that run the production SRD engine: `engine` fidelity of controllers that spray. Each host
// has one queue pair, a flow is a WRITE of it to another host's; what goes over which path, what is
// acknowledged, lost and sent again is the engine's own, over the same fabric that the light hosts
// of lib/sim/hosts/light_spray use.
#pragma once

#include <memory>
#include <vector>

#include "lib/sim/hosts/engine/scratch.hpp"
#include "lib/sim/hosts/engine/spray_port.hpp"
#include "lib/sim/hosts/engine/turns.hpp"
#include "lib/srd/engine.hpp"

namespace weft::sim::engines {

class SrdHosts {
 public:
  SrdHosts(const fabric::Topology& topology, const flow::Scheme& scheme, fabric::EventWheel& wheel,
           fabric::Fabric& fabric, fabric::Spray& spray, std::span<const flow::FlowSpec> flows,
           uint64_t seed);

  // What the run loop asks of hosts; see flow/hosts.hpp.
  void start(uint32_t flow, const flow::FlowSpec& spec);
  void deliver(const fabric::Packet& packet);
  void wake(const fabric::Packet& event);
  void prefetch(const fabric::Packet& packet) noexcept {
    __builtin_prefetch(&wiring_.frames[packet.number], 1);
  }

  const std::vector<int64_t>& finished_at() const noexcept { return finished_at_; }
  // Done, or given up by the engine.
  size_t finished() const noexcept { return finished_; }
  uint64_t data_delivered() const noexcept { return data_delivered_; }
  uint64_t retransmitted() const noexcept;
  // What the window to the flow's target gives in a round trip; 0 while nothing is on the way.
  double rate(uint32_t flow) const noexcept;
  // Frames that are in the network, or at a NIC.
  size_t frames_lent() const noexcept { return wiring_.frames.lent(); }

 private:
  struct Host {
    Host(SprayWiring& wiring, uint32_t node, uint32_t number, const srd::Config& config,
         uint64_t seed, const Scratch& scratch, uint32_t requests);
    base::SecureRandom random;
    SprayPort port;
    srd::Engine engine;
    transport::CompletionQueue completions;
    uint32_t key;
    srd::QueuePair* qp;
    Station station;
  };

  srd::Config config_of(uint32_t node) const;
  void take_turn(Host& host);
  void take_completions(Host& host);
  Host& host_of(uint32_t node) noexcept { return *hosts_[node]; }

  const flow::Scheme& scheme_;
  fabric::EventWheel& wheel_;
  fabric::Fabric& fabric_;
  SprayWiring wiring_;
  Turns turns_;
  Scratch scratch_;
  std::span<const flow::FlowSpec> flows_;
  std::vector<std::unique_ptr<Host>> hosts_;  // by node
  std::vector<uint32_t> left_;                // WRITEs, by flow
  std::vector<bool> failed_;
  std::vector<int64_t> finished_at_;
  size_t finished_ = 0;
  uint64_t data_delivered_ = 0;
};

}  // namespace weft::sim::engines
