// SPDX-License-Identifier: BSD-3-Clause
// Light hosts: a NIC that serves many flows, a sender with a controller, a receiver that
// acknowledges every packet: the whole transport of `flow` fidelity. The network below is that of
// hosts with engines.
//
// The NIC's rules (HPCC simulator): one packet at a time; acknowledgements first; then the flows
// round robin, one packet each, from the one after the last served. A flow may send if it has
// bytes, its class is not paused, its payload in flight is less than its window, and its next-send
// time has come. With several data classes the scheduler of the switches selects the class.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "lib/sim/fabric/fabric.hpp"
#include "lib/sim/hosts/flow.hpp"
#include "lib/sim/scheme/scheme.hpp"
#include "lib/sim/tasks/messages.hpp"

namespace weft::sim::flow {

class Hosts {
 public:
  Hosts(const fabric::Topology& topology, const Scheme& scheme, fabric::EventWheel& wheel,
        fabric::ChunkPool& pool, fabric::Fabric& fabric, fabric::TelemetryPool& telemetry,
        size_t flow_count, bool lossy);

  // Opens a flow: its first packet may leave at once.
  void start(uint32_t flow, const FlowSpec& spec);
  // Flows that `messages` knows send what it has released; before the first of them starts.
  void use_messages(Messages& messages) { messages_ = &messages; }
  // More of a flow's messages may be sent; the first time, the flow starts.
  void release(uint32_t flow, const FlowSpec& spec);
  // A packet has arrived at its destination host.
  void deliver(const fabric::Packet& packet);
  // nic_wake: the NIC of `port` may send.
  void wake(const fabric::Packet& event);
  // A RESUME has arrived at the NIC of `port`.
  void resume(uint32_t port) { serve_nic(port); }
  // flow_timer.
  void timer(const fabric::Packet& event);

  // Arrival of the acknowledgement of the last byte, in ps; kNever: not finished.
  const std::vector<int64_t>& finished_at() const noexcept { return finished_at_; }
  size_t finished() const noexcept { return finished_; }
  uint64_t data_delivered() const noexcept { return data_delivered_; }
  uint64_t retransmitted() const noexcept { return retransmitted_; }
  // The rate of the controller; 0 if the flow has not started, or is done.
  double rate(uint32_t number) const noexcept {
    const FlowState& flow = flows_[number];
    return flow.packets > 0 && !flow.done() ? flow.controller.rate() : 0;
  }

 private:
  // The flows of a host that are not finished, in the order of their start. Parallel arrays: the
  // search for the next sender reads only the first.
  struct Nic {
    std::vector<int64_t> ready;  // ps: when the flow may send; kNever while it may not
    std::vector<uint32_t> flows;
    // Round robin: where the next search begins, by class (0: of the only class).
    std::array<uint32_t, fabric::kClasses> after{};
    uint32_t dead = 0;  // finished entries
    int64_t wake_at = kNever;
  };

  void receive_data(const fabric::Packet& packet);
  void send_answer(const fabric::Packet& data, fabric::Event kind, bool cnp);
  void receive_answer(const fabric::Packet& packet);
  void update_controller(FlowState& flow, const fabric::Packet& packet, uint32_t newly);
  void finish(uint32_t number, FlowState& flow);
  void go_back(uint32_t number, FlowState& flow, congestion::Loss::Reason reason);

  void serve_nic(uint32_t port);
  void serve_nic_classed(uint32_t number);
  bool send_queued_answer(uint32_t number, fabric::Port& port);
  void send_data(uint32_t port, Nic& nic, uint32_t index, uint32_t c = 0);
  void plan_wake(uint32_t port, Nic& nic, int64_t at);
  void refresh(uint32_t number, FlowState& flow);
  void arm_timer(uint32_t number, FlowState& flow);
  void compact(Nic& nic);
  int64_t gap(const FlowState& flow, double rate) const noexcept;
  uint32_t payload_of(uint32_t number, const FlowState& flow) const noexcept;

  const congestion::Preset& preset(const FlowState& flow) const noexcept {
    return scheme_.presets[scheme_.preset_of_node[flow.src]];
  }
  uint32_t nic_port(uint32_t node) const noexcept { return topology_.ports_of(node)[0]; }

  const fabric::Topology& topology_;
  const Scheme& scheme_;
  const bool has_records_;
  const bool lossy_;  // packets may be lost: flows have an RTO
  fabric::EventWheel& wheel_;
  fabric::ChunkPool& pool_;
  fabric::Fabric& fabric_;
  fabric::TelemetryPool& telemetry_;
  std::vector<FlowState> flows_;
  std::vector<Nic> nics_;  // by node
  std::vector<int64_t> finished_at_;
  Messages* messages_ = nullptr;
  size_t finished_ = 0;
  uint64_t data_delivered_ = 0;
  uint64_t retransmitted_ = 0;
};

}  // namespace weft::sim::flow
