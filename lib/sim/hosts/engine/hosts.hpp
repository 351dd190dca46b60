// SPDX-License-Identifier: BSD-3-Clause
// Hosts that run the production RoCE engine: `engine` fidelity. A flow is one RC queue pair at
// either end, and a WRITE; what a transport does (segmentation, acknowledgements, pacing, going
// back) is the engine's own, in virtual time, over the same fabric that the light hosts of `flow`
// fidelity use.
#pragma once

#include <memory>
#include <vector>

#include "lib/roce/engine.hpp"
#include "lib/sim/hosts/engine/fabric_port.hpp"
#include "lib/sim/hosts/engine/scratch.hpp"
#include "lib/sim/hosts/engine/turns.hpp"
#include "lib/sim/hosts/engine/wiring.hpp"
#include "lib/sim/hosts/flow.hpp"

namespace weft::sim::engines {

class Hosts {
 public:
  // `lossy`: the network may lose packets, so that queue pairs need an RTO.
  Hosts(const fabric::Topology& topology, const flow::Scheme& scheme, fabric::EventWheel& wheel,
        fabric::ChunkPool& pool, fabric::Fabric& fabric, fabric::TelemetryPool& telemetry,
        std::span<const flow::FlowSpec> flows, bool lossy, uint64_t seed);

  // What the run loop asks of hosts; see lib/sim/hosts/light/hosts.hpp.
  void start(uint32_t flow, const flow::FlowSpec& spec);
  void deliver(const fabric::Packet& packet);
  void wake(const fabric::Packet& event);
  void resume(uint32_t port);

  // Loads what deliver() will touch first.
  void prefetch(const fabric::Packet& packet) noexcept {
    __builtin_prefetch(&wiring_.frames[packet.number], 1);
    __builtin_prefetch(&wiring_.connections[packet.flow]);
  }

  const std::vector<int64_t>& finished_at() const noexcept { return finished_at_; }
  // Done, or given up by the engine (its retries were used up).
  size_t finished() const noexcept { return finished_; }
  uint64_t data_delivered() const noexcept { return data_delivered_; }
  uint64_t retransmitted() const noexcept;
  double rate(uint32_t flow) const noexcept;
  // Frames that are in the network, or at a NIC.
  size_t frames_lent() const noexcept { return wiring_.frames.lent(); }

 private:
  struct Host {
    Host(Wiring& wiring, uint32_t node, uint32_t number, const roce::EngineConfig& config,
         uint64_t seed, const Scratch& scratch);
    base::SecureRandom random;
    FabricPort port;
    roce::Engine engine;
    transport::CompletionQueue completions;
    uint32_t key;
    Station station;
  };

  roce::EngineConfig config_of(uint32_t node) const;
  roce::QueuePair* open(Host& host, uint32_t requests);
  void connect(Host& host, roce::QueuePair& qp, const Gid& peer, QpNum number);
  void post(Host& host, uint32_t flow, uint64_t bytes, uint32_t remote_key);
  void take_turn(Host& host);
  void take_completions(Host& host);
  void close(uint32_t flow);
  Host& host_of(uint32_t node) noexcept { return *hosts_[node]; }

  const fabric::Topology& topology_;
  const flow::Scheme& scheme_;
  fabric::EventWheel& wheel_;
  Wiring wiring_;
  Turns turns_;
  const uint8_t timeout_;  // of queue pairs, as its code
  Scratch scratch_;
  std::span<const flow::FlowSpec> flows_;
  std::vector<std::unique_ptr<Host>> hosts_;  // by node
  std::vector<int64_t> finished_at_;
  size_t finished_ = 0;
  uint64_t data_delivered_ = 0;
};

}  // namespace weft::sim::engines
