// SPDX-License-Identifier: BSD-3-Clause
// Time-outs of sprayed flows: counted from the transmission of the oldest packet on its way. Where
// switches trim they are rare, since every packet that was cut is told.
#include <algorithm>

#include "lib/sim/hosts/light_spray/hosts.hpp"

namespace weft::sim::spray {

using fabric::Event;
using fabric::Packet;

// The oldest packet on its way; false if there is none.
bool Hosts::find_oldest(Sender& sender, uint32_t& packet) const {
  while (!sender.departures.empty()) {
    const Sender::Departure& departure = sender.departures.front();
    packet = departure.number;
    if (packet >= sender.cumulative && sender.outstanding.test(packet) &&
        sender.sent_of(packet).times == departure.times)
      return true;
    sender.departures.pop();
  }
  return false;
}

// Keeps one event on its way, at or before the next time-out; one that comes too early plans the
// next.
void Hosts::arm_timer(uint32_t number) {
  Sender& sender = flows_[number].sender;
  if (sender.timer_at != kNever) return;
  uint32_t packet = 0;
  const bool any = find_oldest(sender, packet);
  const int64_t from = any ? sender.sent_of(packet).at : wheel_.now();
  sender.timer_at = std::max(from + scheme_.timeout_ps, wheel_.now());
  wheel_.plan(sender.timer_at, Event::flow_timer, 0, number);
}

// With nothing on its way a flow waits for its turn, for credit, or for the acknowledgement that
// says that all is there; what it may have missed it asks for.
void Hosts::timer(const Packet& event) {
  Flow& flow = flows_[event.flow];
  flow.sender.timer_at = kNever;
  if (flow.done()) return;
  uint32_t packet = 0;
  if (!find_oldest(flow.sender, packet)) {
    if (!flow.sender.queued) ask(event.flow);
  } else if (flow.sender.sent_of(packet).at + scheme_.timeout_ps <= wheel_.now()) {
    expire(event.flow, packet);
  }
  arm_timer(event.flow);
}

void Hosts::expire(uint32_t number, uint32_t packet) {
  Flow& flow = flows_[number];
  Sender& sender = flow.sender;
  // The reference does not keep which path the packet took, and blames the first (UEC simulator).
  sender.paths.on_feedback(0, congestion::PathFeedback::timed_out, now());
  const bool others = sender.lost > 0;
  const uint32_t bytes = bytes_of(flow, packet);
  give_up(flow, packet);
  if (sender.on_way == 0) sender.in_flight = 0;
  sender.controller.on_loss(
      preset(flow.src), {.now = now(),
                         .acked = uint64_t{sender.cumulative} * scheme_.payload,
                         .sent = uint64_t{sender.next} * scheme_.payload,
                         .in_flight = static_cast<uint64_t>(std::max<int64_t>(sender.in_flight, 0)),
                         .bytes = bytes,
                         .reason = congestion::Loss::Reason::timeout});
  if (others ? credited_ : !may_send(flow)) ask(number);
  try_to_send(number);
}

// A packet without data that the receiver answers at once; it also says how much credit the sender
// would like. One per RTT, so that an incast does not become one of asks.
void Hosts::ask(uint32_t number) {
  Flow& flow = flows_[number];
  Sender& sender = flow.sender;
  const auto rtt = static_cast<int64_t>(scheme_.base_rtt_ns * 1000);
  if (sender.asked_at >= 0 && wheel_.now() - sender.asked_at < rtt) return;
  sender.asked_at = wheel_.now();
  if (credited_) sender.wished = wish(flow);
  Packet packet{};
  packet.tag.event = Event::ask;
  packet.tag.control = true;
  packet.flow = number;
  packet.number = fabric::AckPool::kNoPacket;
  packet.bytes = static_cast<uint16_t>(scheme_.ack_bytes);
  packet.stamp = sender.wished;
  packet.entropy = sender.paths.next(now());
  send_control(flow.src, packet);
}

}  // namespace weft::sim::spray
