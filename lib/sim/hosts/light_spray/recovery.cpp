// SPDX-License-Identifier: BSD-3-Clause
// Retransmission timeouts of sprayed flows, from the transmission of the oldest outstanding packet.
// Where switches trim they are rare, since every trimmed packet is reported by a NAK.
#include <algorithm>

#include "lib/base/check.hpp"
#include "lib/sim/hosts/light_spray/hosts.hpp"

namespace weft::sim::spray {

using fabric::Event;
using fabric::Packet;

namespace {

// The outstanding packet that was sent first; false if there is none.
bool find_oldest(Sender& sender, uint32_t& packet) {
  while (!sender.departures.empty()) {
    const Sender::Departure& departure = sender.departures.front();
    packet = departure.number;
    if (packet >= sender.cumulative && sender.outstanding.test(packet) &&
        sender.sent_of(packet).transmissions == departure.transmissions)
      return true;
    sender.departures.pop();
  }
  return false;
}

}  // namespace

// Keeps one event in the wheel, at or before the RTO; one that comes too early schedules
// the next.
void Hosts::arm_timer(uint32_t number) {
  Sender& sender = flows_[number].sender;
  if (sender.timer_at != kNever) return;
  uint32_t packet = 0;
  const bool any = find_oldest(sender, packet);
  const int64_t from = any ? sender.sent_of(packet).at : wheel_.now();
  WEFT_DCHECK(!any || sender.sent_of(packet).at <= wheel_.now());
  sender.timer_at = std::max(from + scheme_.timeout_ps, wheel_.now());
  wheel_.plan(sender.timer_at, Event::flow_timer, 0, number);
}

// With no packet outstanding a flow waits for its NIC, for credit, or for the acknowledgement of
// all packets; a probe recovers a lost grant or acknowledgement.
void Hosts::timer(const Packet& event) {
  Flow& flow = flows_[event.flow];
  WEFT_DCHECK(event.at == flow.sender.timer_at);
  flow.sender.timer_at = kNever;
  if (flow.done() || flow.idle()) return;
  uint32_t packet = 0;
  if (!find_oldest(flow.sender, packet)) {
    if (!flow.sender.queued) probe(event.flow);
  } else if (flow.sender.sent_of(packet).at + scheme_.timeout_ps <= wheel_.now()) {
    on_timeout(event.flow, packet);
  }
  arm_timer(event.flow);
}

void Hosts::on_timeout(uint32_t number, uint32_t packet) {
  Flow& flow = flows_[number];
  Sender& sender = flow.sender;
  // The reference does not keep which path the packet took, and charges the first (UEC simulator).
  sender.paths.on_feedback(0, congestion::PathFeedback::timed_out, now());
  const bool others = sender.lost > 0;
  const uint32_t bytes = flow.bytes_of(packet, full_bytes_);
  flow.mark_lost(packet, full_bytes_);
  if (sender.outstanding_packets == 0) sender.bytes_in_flight = 0;
  sender.controller.on_loss(
      preset(flow.src),
      {.now = now(),
       .acked = uint64_t{sender.cumulative} * scheme_.payload,
       .sent = uint64_t{sender.next} * scheme_.payload,
       .in_flight = static_cast<uint64_t>(std::max<int64_t>(sender.bytes_in_flight, 0)),
       .bytes = bytes,
       .reason = congestion::Loss::Reason::timeout});
  WEFT_DCHECK(sender.valid());
  if (others ? credited_ : !may_send(flow)) probe(number);
  try_send(number);
}

// A packet without data that the receiver answers at once; it also carries the credit request. At
// most one per RTT, so that probes do not become an incast of their own.
void Hosts::probe(uint32_t number) {
  Flow& flow = flows_[number];
  Sender& sender = flow.sender;
  const auto rtt = static_cast<int64_t>(scheme_.base_rtt_ns * 1000);
  if (sender.probed_at >= 0 && wheel_.now() - sender.probed_at < rtt) return;
  sender.probed_at = wheel_.now();
  if (credited_) sender.requested = credit_to_request(flow);
  Packet packet{};
  packet.tag.event = Event::probe;
  packet.tag.control = true;
  packet.flow = number;
  packet.number = fabric::AckPool::kNoPacket;
  packet.bytes = static_cast<uint16_t>(scheme_.ack_bytes);
  packet.stamp = sender.requested;
  packet.entropy = sender.paths.next(now());
  send_control(flow.src, packet);
}

}  // namespace weft::sim::spray
