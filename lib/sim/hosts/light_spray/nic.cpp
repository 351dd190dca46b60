// SPDX-License-Identifier: BSD-3-Clause
// The NIC. While packets wait, a wake-up is scheduled for when the port is free; so a port that is
// free without one has an empty queue, and a packet given to it leaves at once.
#include <algorithm>

#include "lib/base/check.hpp"
#include "lib/sim/hosts/light_spray/hosts.hpp"

namespace weft::sim::spray {

using fabric::Packet;

namespace {

constexpr uint8_t kRounds = 11;  // one of data, ten of control

}  // namespace

void Hosts::plan_wake(uint32_t port, Nic& nic) {
  if (nic.wake_at != kNever) return;
  nic.wake_at = std::max(fabric_.port(port).free_at, wheel_.now());
  wheel_.plan(nic.wake_at, fabric::Event::nic_wake, port);
}

void Hosts::wake(const Packet& event) {
  fabric::Port& port = fabric_.port(event.target);
  Nic& nic = nics_[port.node];
  WEFT_DCHECK(event.at == nic.wake_at && port.free_at <= wheel_.now());
  nic.wake_at = kNever;
  const bool control = !port.control.empty();
  const bool data = !nic.flows.empty();
  if (control && data) nic.round = static_cast<uint8_t>((nic.round + 1) % kRounds);
  const bool data_first = data && (!control || nic.round == 0);
  if (!(data_first && send_next_data(event.target, nic)) && control)
    send_next_control(event.target);
  if (!port.control.empty() || !nic.flows.empty()) plan_wake(event.target, nic);
}

void Hosts::send_control(uint32_t node, const Packet& packet) {
  const uint32_t number = nic_port(node);
  fabric::Port& port = fabric_.port(number);
  ++fabric_.counters().sent;
  if (idle(port, nics_[node])) return fabric_.spray(number, packet);
  port.control.push(packet, pool_);
  plan_wake(number, nics_[node]);
}

void Hosts::send_next_control(uint32_t number) {
  const Packet packet = fabric_.port(number).control.pop(pool_);
  fabric_.spray(number, packet);
}

// Sends a packet of the next flow that may send, and removes flows that may not. False: none may.
bool Hosts::send_next_data(uint32_t port, Nic& nic) {
  while (!nic.flows.empty()) {
    const uint32_t number = nic.flows.front();
    Flow& flow = flows_[number];
    WEFT_DCHECK(flow.sender.queued);
    const bool sends = may_send(flow);
    if (sends) send_packet(number, port);
    nic.flows.pop();
    flow.sender.queued = sends && may_send(flow);
    if (flow.sender.queued) nic.flows.push(number);
    if (sends) return true;
  }
  return false;
}

void Hosts::try_send(uint32_t number) {
  Flow& flow = flows_[number];
  if (flow.sender.queued || !may_send(flow)) return;
  const uint32_t port = nic_port(flow.src);
  Nic& nic = nics_[flow.src];
  if (idle(fabric_.port(port), nic)) {
    send_packet(number, port);
    if (!may_send(flow)) return;
  }
  nic.flows.push(number);
  flow.sender.queued = true;
  plan_wake(port, nic);
}

}  // namespace weft::sim::spray
