// SPDX-License-Identifier: BSD-3-Clause
// Hosts whose flows send each packet over a path of its own (UEC simulator): selective
// acknowledgements, NAKs of trimmed packets, one window over all paths, credit from the receiver.
// lib/congestion has the controller, the credit pacer and the path policy; here are the rules of
// transmission, acknowledgement and retransmission.
//
// The NIC: control packets before data, ten to one when both wait; flows round robin, a packet
// each.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lib/congestion/rccc.hpp"
#include "lib/sim/fabric/fabric.hpp"
#include "lib/sim/hosts/light_spray/flow.hpp"
#include "lib/sim/scheme/scheme.hpp"

namespace weft::sim::spray {

using flow::kNever;

class Hosts {
 public:
  Hosts(const fabric::Topology& topology, const flow::Scheme& scheme, fabric::EventWheel& wheel,
        fabric::ChunkPool& pool, fabric::Fabric& fabric, fabric::Spray& spray, size_t flow_count,
        uint64_t seed);

  // Opens a flow: its first packet may leave at once.
  void start(uint32_t flow, const flow::FlowSpec& spec);
  // See light/hosts.hpp.
  void use_messages(flow::Messages& messages) { messages_ = &messages; }
  void release(uint32_t flow, const flow::FlowSpec& spec);
  // A packet has arrived at its destination host.
  void deliver(const fabric::Packet& packet);
  // nic_wake, flow_timer, host_timer.
  void wake(const fabric::Packet& event);
  void timer(const fabric::Packet& event);
  void host_timer(const fabric::Packet& event);

  // Arrival of the acknowledgement of the last byte, in ps; kNever: not finished.
  const std::vector<int64_t>& finished_at() const noexcept { return finished_at_; }
  size_t finished() const noexcept { return finished_; }
  uint64_t data_delivered() const noexcept { return data_delivered_; }
  uint64_t retransmitted() const noexcept { return retransmitted_; }
  // The rate of the controller; 0 if the flow has not started, or is done.
  double rate(uint32_t number) const noexcept;

 private:
  struct Nic {
    base::RingQueue<uint32_t> flows;  // with a packet to send
    uint8_t round = 0;                // modulo kRounds; data goes first in round 0
    int64_t wake_at = kNever;
    std::optional<congestion::CreditPacer> pacer;
    std::vector<uint32_t> flow_of_sender;  // by the pacer's sender number
    bool grant_scheduled = false;          // a host_timer event is in the wheel
  };

  // The NIC (nic.cpp).
  void plan_wake(uint32_t port, Nic& nic);
  bool idle(const fabric::Port& port, const Nic& nic) const noexcept {
    return port.free_at <= wheel_.now() && nic.wake_at == kNever;
  }
  void send_control(uint32_t node, const fabric::Packet& packet);
  void send_next_control(uint32_t port);
  bool send_next_data(uint32_t port, Nic& nic);
  void try_send(uint32_t number);

  // The sender (sender.cpp).
  bool may_send(const Flow& flow) const noexcept;
  void send_packet(uint32_t number, uint32_t port);
  uint32_t credit_to_request(const Flow& flow) const noexcept;
  void receive_ack(const fabric::Packet& packet);
  void receive_nak(const fabric::Packet& packet);
  void receive_grant(const fabric::Packet& packet);
  void on_timeout(uint32_t number, uint32_t packet);
  void probe(uint32_t number);
  void arm_timer(uint32_t number);
  void finish(uint32_t number);
  void take_messages(uint32_t number);

  // The receiver (receiver.cpp).
  void receive_data(const fabric::Packet& packet);
  void receive_trimmed(const fabric::Packet& packet);
  void receive_probe(const fabric::Packet& packet);
  void acknowledge(const fabric::Packet& cause, bool marked, uint32_t base);
  void on_credit_request(const Flow& flow, const fabric::Packet& packet, bool needs_grant);
  void schedule_grants(uint32_t node);

  const congestion::Preset& preset(uint32_t node) const noexcept {
    return scheme_.presets[scheme_.preset_of_node[node]];
  }
  uint32_t nic_port(uint32_t node) const noexcept { return topology_.ports_of(node)[0]; }
  Instant now() const noexcept { return Instant{wheel_.now()}; }

  const fabric::Topology& topology_;
  const flow::Scheme& scheme_;
  const uint32_t full_bytes_;
  const bool credited_;
  const uint64_t seed_;
  fabric::EventWheel& wheel_;
  fabric::ChunkPool& pool_;
  fabric::Fabric& fabric_;
  fabric::Spray& spray_;
  std::vector<Flow> flows_;
  std::vector<Nic> nics_;  // by node
  std::vector<int64_t> finished_at_;
  flow::Messages* messages_ = nullptr;
  size_t finished_ = 0;
  uint64_t data_delivered_ = 0;
  uint64_t retransmitted_ = 0;
};

}  // namespace weft::sim::spray
