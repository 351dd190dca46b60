// SPDX-License-Identifier: BSD-3-Clause
// The NIC: which flow sends next, and when the next may. A NIC has at most one valid wake-up; an
// event that was replaced by an earlier one is ignored.
#include <algorithm>
#include <array>

#include "lib/base/check.hpp"
#include "lib/sim/hosts/light/hosts.hpp"

namespace weft::sim::flow {

using fabric::Event;
using fabric::Packet;

// Pacing interval: the time that the packet sent last takes at `rate`. Truncated to nanoseconds,
// and a whole number loses one, like serialisation (fabric.cpp).
int64_t Hosts::gap(const FlowState& flow, double rate) const noexcept {
  const double ns = flow.last_bytes * 8e9 / rate;
  if (!scheme_.whole_ns) return static_cast<int64_t>(ns * 1000);
  const auto whole = static_cast<int64_t>(ns);
  return (static_cast<double>(whole) == ns && whole > 0 ? whole - 1 : whole) * 1000;
}

void Hosts::wake(const Packet& event) {
  Nic& nic = nics_[fabric_.port(event.target).node];
  if (event.at != nic.wake_at) return;
  nic.wake_at = kNever;
  serve_nic(event.target);
}

void Hosts::plan_wake(uint32_t port, Nic& nic, int64_t at) {
  if (at >= nic.wake_at) return;
  WEFT_DCHECK(at >= wheel_.now());
  nic.wake_at = at;
  wheel_.plan(at, Event::nic_wake, port);
}

// Sends one packet if the port is idle and a flow may send, and schedules the next wake-up.
void Hosts::serve_nic(uint32_t number) {
  if (fabric_.classes().enabled()) return serve_nic_classed(number);
  fabric::Port& port = fabric_.port(number);
  Nic& nic = nics_[port.node];
  const int64_t now = wheel_.now();
  if (port.free_at > now) return plan_wake(number, nic, port.free_at);
  if (send_queued_answer(number, port)) return plan_wake(number, nic, port.free_at);
  if (port.paused) return;  // resume() comes back here
  int64_t earliest = kNever;
  const auto count = static_cast<uint32_t>(nic.ready.size());
  const int64_t* const ready = nic.ready.data();
  uint32_t index = nic.after[0] < count ? nic.after[0] : 0;
  for (uint32_t left = count; left > 0; --left) {
    if (ready[index] <= now) return send_data(number, nic, index);
    earliest = std::min(earliest, ready[index]);
    if (++index == count) index = 0;
  }
  if (earliest != kNever) plan_wake(number, nic, earliest);
}

// The same with several data classes: each class has its acknowledgements of class data, then its
// flows round robin; a paused class sends nothing.
void Hosts::serve_nic_classed(uint32_t number) {
  fabric::DataClasses& classes = fabric_.classes();
  fabric::Port& port = fabric_.port(number);
  Nic& nic = nics_[port.node];
  const int64_t now = wheel_.now();
  if (port.free_at > now) return plan_wake(number, nic, port.free_at);
  if (send_queued_answer(number, port)) return plan_wake(number, nic, port.free_at);
  const uint32_t answers = classes.ready(number);
  const auto count = static_cast<uint32_t>(nic.ready.size());
  std::array<uint32_t, fabric::kClasses> first;
  first.fill(UINT32_MAX);
  uint32_t eligible = answers;
  int64_t earliest = kNever;
  const auto turn = [&](uint32_t i, uint32_t c) { return i >= nic.after[c] ? i : i + count; };
  for (uint32_t i = 0; i < count; ++i) {
    if (nic.ready[i] == kNever) continue;
    const uint32_t c = classes.class_of(nic.flows[i]);
    if (classes.queue(number, c).paused) continue;
    if (nic.ready[i] > now) {
      earliest = std::min(earliest, nic.ready[i]);
      continue;
    }
    eligible |= 1u << c;
    if (first[c] == UINT32_MAX || turn(i, c) < turn(first[c], c)) first[c] = i;
  }
  if (eligible == 0) {
    if (earliest != kNever) plan_wake(number, nic, earliest);
    return;
  }
  const uint32_t c = classes.pick(number, eligible);
  if ((answers >> c & 1) != 0) {
    const Packet answer = classes.queue(number, c).data.pop(pool_);
    classes.charge(number, c, answer.bytes);
    fabric_.transmit(number, answer);
    return plan_wake(number, nic, port.free_at);
  }
  const FlowState& flow = flows_[nic.flows[first[c]]];
  send_data(number, nic, first[c], c);
  classes.charge(number, c, flow.last_bytes);
}

// Acknowledgements precede data; a PAUSE stops them unless the scheme says otherwise.
bool Hosts::send_queued_answer(uint32_t number, fabric::Port& port) {
  fabric::Fifo& queue = scheme_.acks_ignore_pause ? port.control : port.data;
  if (queue.empty() || (port.paused && !scheme_.acks_ignore_pause)) return false;
  Packet answer = queue.pop(pool_);
  fabric_.transmit(number, answer);
  return true;
}

void Hosts::send_data(uint32_t number, Nic& nic, uint32_t index, uint32_t c) {
  const uint32_t flow_number = nic.flows[index];
  FlowState& flow = flows_[flow_number];
  WEFT_DCHECK(!flow.done() && flow.next < flow.released && flow.slot == index);
  nic.after[c] = index + 1;
  const uint32_t payload = payload_of(flow_number, flow);
  const auto now_ns = static_cast<uint32_t>(wheel_.now() / 1000);
  Packet packet{};
  packet.tag.event = Event::data;
  packet.flow = flow_number;
  packet.number = flow.next++;
  packet.bytes = static_cast<uint16_t>(payload + scheme_.data_overhead);
  packet.stamp = has_records_ ? telemetry_.take(now_ns) : now_ns;
  if (scheme_.fabric.telemetry.mode == fabric::Telemetry::digest) packet.stamp = 0;
  ++fabric_.counters().sent;
  fabric_.transmit(number, packet);

  flow.last_bytes = packet.bytes;
  const double rate = flow.controller.rate();
  flow.next_send = wheel_.now() + gap(flow, rate);
  flow.controller.on_sent(preset(flow), payload, Instant{wheel_.now()});
  refresh(flow_number, flow);
  // The next packet of a single flow is known to the picosecond; of several flows another may be
  // first.
  const int64_t free_at = fabric_.port(number).free_at;
  const bool alone = nic.ready.size() - nic.dead == 1 && !fabric_.classes().enabled();
  const int64_t next = alone ? std::max(free_at, nic.ready[index]) : free_at;
  if (next != kNever) plan_wake(number, nic, next);
}

// Of the packet to be sent next.
uint32_t Hosts::payload_of(uint32_t number, const FlowState& flow) const noexcept {
  if (flow.has_messages) return messages_->payload(number, flow.next);
  return flow.next + 1 == flow.packets ? flow.last_payload : scheme_.payload;
}

// Updates in the NIC's list when the flow may send.
void Hosts::refresh(uint32_t, FlowState& flow) {
  WEFT_DCHECK(flow.acked <= flow.next && flow.next <= flow.packets);
  int64_t at = kNever;
  if (flow.next < flow.released) {
    const uint64_t in_flight =
        flow.payload_of(flow.next, scheme_.payload) - flow.payload_of(flow.acked, scheme_.payload);
    if (in_flight < flow.controller.window()) at = flow.next_send;
  }
  nics_[flow.src].ready[flow.slot] = at;
}

// Removes finished flows from the list; the others keep their order and the round robin its place.
void Hosts::compact(Nic& nic) {
  uint32_t kept = 0;
  std::array<uint32_t, fabric::kClasses> after{};
  for (uint32_t i = 0; i < nic.flows.size(); ++i) {
    for (uint32_t c = 0; c < after.size(); ++c)
      if (i == nic.after[c]) after[c] = kept;
    const uint32_t number = nic.flows[i];
    if (number == UINT32_MAX) continue;
    flows_[number].slot = kept;
    nic.flows[kept] = number;
    nic.ready[kept++] = nic.ready[i];
  }
  WEFT_DCHECK(kept + nic.dead == nic.flows.size());
  nic.after = after;
  nic.flows.resize(kept);
  nic.ready.resize(kept);
  nic.dead = 0;
}

}  // namespace weft::sim::flow
