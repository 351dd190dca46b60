// SPDX-License-Identifier: BSD-3-Clause
// The two ends of a flow: receiver and sender. The NIC is nic.cpp.
#include "lib/sim/hosts/light/hosts.hpp"

#include <algorithm>

#include "lib/base/check.hpp"

namespace weft::sim::flow {

using fabric::Event;
using fabric::Packet;

Hosts::Hosts(const fabric::Topology& topology, const Scheme& scheme, fabric::EventWheel& wheel,
             fabric::ChunkPool& pool, fabric::Fabric& fabric, fabric::TelemetryPool& telemetry,
             size_t flow_count, bool lossy)
    : topology_(topology),
      scheme_(scheme),
      has_records_(scheme.fabric.telemetry.mode == fabric::Telemetry::records),
      lossy_(lossy),
      wheel_(wheel),
      pool_(pool),
      fabric_(fabric),
      telemetry_(telemetry),
      flows_(flow_count),
      nics_(topology.node_count()),
      finished_at_(flow_count, kNever) {}

void Hosts::start(uint32_t number, const FlowSpec& spec) {
  FlowState& flow = flows_[number];
  flow.packets = static_cast<uint32_t>((spec.bytes + scheme_.payload - 1) / scheme_.payload);
  flow.last_payload =
      static_cast<uint32_t>(spec.bytes - uint64_t{flow.packets - 1} * scheme_.payload);
  flow.released = flow.packets;
  flow.has_messages = messages_ != nullptr && messages_->carries(number);
  if (flow.has_messages) {
    flow.packets = messages_->packets(number);
    flow.released = messages_->released(number);
    flow.last_payload = messages_->payload(number, flow.packets - 1);
  }
  flow.src = spec.src;
  flow.dst = spec.dst;
  flow.next_send = flow.progress_at = wheel_.now();
  flow.controller.start(preset(flow));
  Nic& nic = nics_[flow.src];
  WEFT_DCHECK(nic.flows.size() == nic.ready.size());
  flow.slot = static_cast<uint32_t>(nic.flows.size());
  nic.flows.push_back(number);
  nic.ready.push_back(wheel_.now());
  arm_timer(number, flow);
  serve_nic(nic_port(flow.src));
}

void Hosts::release(uint32_t number, const FlowSpec& spec) {
  FlowState& flow = flows_[number];
  if (flow.packets == 0) return start(number, spec);
  if (flow.next == flow.acked) flow.progress_at = wheel_.now();  // the RTO begins
  flow.released = messages_->released(number);
  arm_timer(number, flow);
  refresh(number, flow);
  serve_nic(nic_port(flow.src));
}

void Hosts::deliver(const Packet& packet) {
  ++fabric_.counters().delivered;
  if (packet.tag.event == Event::data)
    receive_data(packet);
  else
    receive_answer(packet);
}

// One acknowledgement per data packet, cumulative, without delay. One NAK per sequence gap.
void Hosts::receive_data(const Packet& packet) {
  FlowState& flow = flows_[packet.flow];
  WEFT_DCHECK(flow.expected <= flow.packets && packet.number < flow.packets);
  ++data_delivered_;
  bool cnp = false;
  if (packet.tag.marked && wheel_.now() >= flow.next_cnp) {
    cnp = true;
    flow.next_cnp = wheel_.now() + scheme_.cnp_interval_ps;
  }
  if (packet.number == flow.expected) {
    ++flow.expected;
    flow.nak_sent_for = UINT32_MAX;
    if (flow.has_messages) messages_->arrived(packet.flow, flow.expected);
    return send_answer(packet, Event::ack, cnp);
  }
  const bool new_gap = packet.number > flow.expected && flow.nak_sent_for != flow.expected;
  if (packet.number < flow.expected) return send_answer(packet, Event::ack, cnp);
  if (!new_gap) {
    if (has_records_) telemetry_.give(packet.stamp);
    return;
  }
  flow.nak_sent_for = flow.expected;
  send_answer(packet, Event::nak, cnp);
}

void Hosts::send_answer(const Packet& data, Event kind, bool cnp) {
  Packet answer = data;  // with its stamp or telemetry block, and its mark as the echo
  answer.tag.event = kind;
  answer.number = flows_[data.flow].expected;
  answer.bytes = static_cast<uint16_t>(scheme_.ack_bytes);
  answer.tag.cnp = cnp;
  answer.tag.control = scheme_.ack_control;
  answer.hop = 0;
  if (kind == Event::nak && has_records_) telemetry_.give(data.stamp);
  const uint32_t number = nic_port(flows_[data.flow].dst);
  fabric::Port& port = fabric_.port(number);
  ++fabric_.counters().sent;
  if (port.free_at <= wheel_.now() && port.control.empty() && port.data.empty() &&
      (scheme_.acks_ignore_pause || (!port.paused && !fabric_.classes().enabled())))
    return fabric_.transmit(number, answer);
  if (scheme_.acks_ignore_pause)
    port.control.push(answer, pool_);
  else if (fabric_.classes().enabled())
    fabric_.classes()
        .queue(number, fabric_.classes().class_of(answer.flow))
        .data.push(answer, pool_);
  else
    port.data.push(answer, pool_);
  serve_nic(number);
}

// At the sender: an acknowledgement or a NAK.
void Hosts::receive_answer(const Packet& packet) {
  FlowState& flow = flows_[packet.flow];
  const bool blocks = has_records_ && packet.tag.event == Event::ack;
  if (flow.done()) {  // a duplicate of a finished flow
    if (blocks) telemetry_.give(packet.stamp);
    return;
  }
  WEFT_DCHECK(packet.number <= flow.packets);
  const uint32_t newly = packet.number > flow.acked ? packet.number - flow.acked : 0;
  if (newly > 0) {
    flow.acked = packet.number;
    flow.next = std::max(flow.next, flow.acked);  // acknowledged after a go-back-N
    flow.progress_at = wheel_.now();
    if (flow.has_messages) messages_->acknowledged(packet.flow, flow.acked);
  }
  if (packet.tag.event == Event::nak) go_back(packet.flow, flow, congestion::Loss::Reason::gap);
  if (flow.done()) {
    if (blocks) telemetry_.give(packet.stamp);
    return finish(packet.flow, flow);
  }
  if (packet.tag.cnp) flow.controller.on_cnp(preset(flow), Instant{wheel_.now()});
  if (packet.tag.event == Event::ack) update_controller(flow, packet, newly);
  arm_timer(packet.flow, flow);
  refresh(packet.flow, flow);
  serve_nic(nic_port(flow.src));
}

void Hosts::update_controller(FlowState& flow, const Packet& packet, uint32_t newly) {
  const congestion::Preset& rules = preset(flow);
  congestion::Ack ack;
  ack.now = Instant{wheel_.now()};
  ack.acked = flow.payload_of(flow.acked, scheme_.payload);
  ack.sent = flow.payload_of(flow.next, scheme_.payload);
  ack.newly_acked = newly * scheme_.payload;
  ack.packet_bytes = scheme_.payload;
  ack.marked = packet.tag.marked;
  uint32_t stamp = packet.stamp;
  if (has_records_) {
    const fabric::TelemetryBlock& block = telemetry_[packet.stamp];
    ack.hops = {block.hops.data(), block.count};
    stamp = block.stamp_ns;
  }
  if (rules.kind->signal == congestion::Signal::digest)
    ack.digest = static_cast<uint8_t>(packet.stamp);  // in the place of the time: no RTT
  else
    ack.rtt = Duration::from_ns(static_cast<uint32_t>(wheel_.now() / 1000) - stamp);
  WEFT_DCHECK(ack.acked <= ack.sent && ack.rtt.ps >= 0);
  const double before = flow.controller.rate();
  flow.controller.on_ack(rules, ack);
  if (has_records_) telemetry_.give(packet.stamp);
  // hpcc and hpcc-pint reschedule the next packet (HPCC simulator).
  if (rules.kind->moves_pending && flow.last_bytes != 0 && flow.controller.rate() != before)
    flow.next_send += gap(flow, flow.controller.rate()) - gap(flow, before);
}

void Hosts::finish(uint32_t number, FlowState& flow) {
  WEFT_DCHECK(flow.done() && finished_at_[number] == kNever);
  finished_at_[number] = wheel_.now();
  ++finished_;
  Nic& nic = nics_[flow.src];
  WEFT_DCHECK(nic.flows[flow.slot] == number);
  nic.ready[flow.slot] = kNever;
  nic.flows[flow.slot] = UINT32_MAX;
  if (++nic.dead > 16 && nic.dead * 2 > nic.flows.size()) compact(nic);
  serve_nic(nic_port(flow.src));
}

// Go-back-N.
void Hosts::go_back(uint32_t number, FlowState& flow, congestion::Loss::Reason reason) {
  WEFT_DCHECK(flow.acked <= flow.next && flow.next <= flow.packets);
  retransmitted_ += flow.next - flow.acked;
  const congestion::Loss loss{.now = Instant{wheel_.now()},
                              .acked = flow.payload_of(flow.acked, scheme_.payload),
                              .sent = flow.payload_of(flow.next, scheme_.payload),
                              .bytes = scheme_.payload,
                              .reason = reason};
  flow.next = flow.acked;
  flow.progress_at = wheel_.now();
  flow.controller.on_loss(preset(flow), loss);
  refresh(number, flow);
}

void Hosts::timer(const Packet& event) {
  FlowState& flow = flows_[event.flow];
  if (event.at != flow.timer_at) return;  // replaced by an earlier one
  flow.timer_at = kNever;
  if (flow.done()) return;
  const int64_t now = wheel_.now();
  flow.controller.on_deadline(preset(flow), Instant{now});
  if (lossy_ && now - flow.progress_at >= scheme_.timeout_ps) {
    if (flow.next > flow.acked) go_back(event.flow, flow, congestion::Loss::Reason::timeout);
    flow.progress_at = now;
  }
  arm_timer(event.flow, flow);
  refresh(event.flow, flow);
  serve_nic(nic_port(flow.src));
}

// Keeps one event in the wheel at or before the flow's next deadline, which includes the RTO where
// packets may be lost. An event that comes too early schedules the next.
void Hosts::arm_timer(uint32_t number, FlowState& flow) {
  int64_t at = flow.controller.next_deadline().ps;
  if (lossy_) at = std::min(at, flow.progress_at + scheme_.timeout_ps);
  if (at >= flow.timer_at) return;
  flow.timer_at = std::max(at, wheel_.now());
  wheel_.plan(flow.timer_at, Event::flow_timer, 0, number);
}

}  // namespace weft::sim::flow
