// SPDX-License-Identifier: BSD-3-Clause
// Hosts that run the production SRD engine: `engine` fidelity of controllers that spray. Each host
// has one queue pair, a flow is a WRITE to that of another host. Path choice, acknowledgement and
// loss recovery are the engine's, over the fabric of lib/sim/hosts/light_spray.
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

  // The interface of hosts to the run loop; see light/hosts.hpp.
  void start(uint32_t flow, const flow::FlowSpec& spec);
  void deliver(const fabric::Packet& packet);
  void wake(const fabric::Packet& event);
  void prefetch(const fabric::Packet& packet) noexcept {
    __builtin_prefetch(&wiring_.frames[packet.number], 1);
  }

  const std::vector<int64_t>& finished_at() const noexcept { return finished_at_; }
  // Flows completed, with success or error.
  size_t finished() const noexcept { return finished_; }
  uint64_t data_delivered() const noexcept { return data_delivered_; }
  uint64_t retransmitted() const noexcept;
  // Window to the flow's destination per RTT; 0 while nothing is in flight.
  double rate(uint32_t flow) const noexcept;
  // Frames in the network or at a NIC.
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

  void introduce(Host& source, Host& target);
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
