// SPDX-License-Identifier: BSD-3-Clause
// The sender of a sprayed flow. Each packet is in one of four states: unsent, outstanding, lost
// (retransmitted before new data), acknowledged.
#include <algorithm>

#include "lib/base/check.hpp"
#include "lib/sim/hosts/light_spray/hosts.hpp"

namespace weft::sim::spray {

using congestion::PathFeedback;
using fabric::AckBlock;
using fabric::Event;
using fabric::Packet;

namespace {

// Grows the records for one more packet.
void reserve_record(Sender& sender) {
  const uint32_t high = sender.next + 1;
  sender.outstanding.cover(sender.cumulative, high);
  sender.to_retransmit.cover(sender.cumulative, high);
  if (sender.sent.size() >= high - sender.cumulative) return;
  std::vector<Sent> larger(std::max<size_t>(64, 2 * sender.sent.size()));
  for (uint32_t i = sender.cumulative; i < sender.next; ++i)
    larger[i & (larger.size() - 1)] = sender.sent_of(i);
  sender.sent.swap(larger);
}

// RTT sample of the packet that an acknowledgement answers; 0 if the transmission is ambiguous
// (Karn's rule).
Duration round_trip(const Sender& sender, const AckBlock& block, int64_t now) noexcept {
  if (block.answers < sender.cumulative || block.answers >= sender.next) return {};
  if (!sender.outstanding.test(block.answers)) return {};
  const Sent& record = sender.sent_of(block.answers);
  if (record.transmissions != (block.retransmitted ? 2u : 1u)) return {};
  return Duration{now - record.at};
}

void take_cumulative(Flow& flow, uint32_t cumulative, uint32_t full_bytes) {
  Sender& sender = flow.sender;
  WEFT_DCHECK(cumulative <= sender.next);
  for (; sender.cumulative < cumulative; ++sender.cumulative) {
    const uint32_t number = sender.cumulative;
    if (sender.outstanding.test(number)) {
      sender.outstanding.clear(number);
      --sender.outstanding_packets;
    } else if (sender.to_retransmit.test(number)) {
      // Marked lost, yet it has arrived (spurious): the receiver has counted its bytes.
      sender.to_retransmit.clear(number);
      --sender.lost;
      sender.bytes_in_flight += flow.bytes_of(number, full_bytes);
    }
  }
}

void take_selective(Flow& flow, const AckBlock& block, uint32_t full_bytes) {
  Sender& sender = flow.sender;
  uint64_t arrived = block.arrived;
  uint32_t base = block.base;
  if (base < sender.cumulative) {
    const uint32_t below = sender.cumulative - base;
    arrived = below < 64 ? arrived >> below : 0;
    base = sender.cumulative;
  }
  if (arrived == 0 || base >= sender.next) return;
  const uint64_t outstanding = arrived & sender.outstanding.word(base);
  for (uint64_t bits = outstanding; bits != 0; bits &= bits - 1, --sender.outstanding_packets)
    sender.outstanding.clear(base + static_cast<uint32_t>(std::countr_zero(bits)));
  if (sender.lost == 0) return;
  for (uint64_t bits = arrived & sender.to_retransmit.word(base); bits != 0; bits &= bits - 1) {
    const uint32_t number = base + static_cast<uint32_t>(std::countr_zero(bits));
    sender.to_retransmit.clear(number);
    --sender.lost;
    sender.bytes_in_flight += flow.bytes_of(number, full_bytes);
  }
}

}  // namespace

void Hosts::start(uint32_t number, const flow::FlowSpec& spec) {
  Flow& flow = flows_[number];
  flow.packets = static_cast<uint32_t>((spec.bytes + scheme_.payload - 1) / scheme_.payload);
  const uint64_t before = uint64_t{flow.packets - 1} * scheme_.payload;
  flow.last_bytes = static_cast<uint32_t>(spec.bytes - before) + scheme_.header;
  flow.released = flow.packets;
  if (messages_ != nullptr && messages_->carries(number)) take_messages(number);
  flow.src = spec.src;
  flow.dst = spec.dst;
  spray_.routes.set(number, spec.src, spec.dst);
  flow.sender.controller.start(preset(flow.src));
  flow.sender.paths.start(scheme_.paths, seed_ + number);
  if (credited_) {
    Nic& nic = nics_[flow.dst];
    if (!nic.pacer) nic.pacer.emplace(congestion::credit_rules(preset(flow.dst)));
    flow.receiver.credit_number = nic.pacer->add();
    nic.flow_of_sender.push_back(number);
  }
  try_send(number);
}

void Hosts::take_messages(uint32_t number) {
  Flow& flow = flows_[number];
  flow.messages = messages_;
  flow.self = number;
  flow.header = scheme_.header;
  flow.packets = messages_->packets(number);
  flow.released = messages_->released(number);
  flow.last_bytes = flow.bytes_of(flow.packets - 1, full_bytes_);
}

void Hosts::release(uint32_t number, const flow::FlowSpec& spec) {
  Flow& flow = flows_[number];
  if (flow.packets == 0) return start(number, spec);
  flow.released = messages_->released(number);
  try_send(number);
  if (!credited_ || may_send(flow) || flow.sender.queued) return;
  probe(number);  // for credit
  arm_timer(number);
}

bool Hosts::may_send(const Flow& flow) const noexcept {
  const Sender& sender = flow.sender;
  if (!flow.has_work()) return false;
  if (credited_ && sender.controller.credit(preset(flow.src)) <= 0) return false;
  const uint32_t number =
      sender.lost > 0 ? sender.to_retransmit.first(sender.cumulative) : sender.next;
  const int64_t after = sender.bytes_in_flight + flow.bytes_of(number, full_bytes_);
  return after <= 0 || sender.controller.window() >= static_cast<uint64_t>(after);
}

void Hosts::send_packet(uint32_t number, uint32_t port) {
  Flow& flow = flows_[number];
  Sender& sender = flow.sender;
  const bool again = sender.lost > 0;
  if (!again) reserve_record(sender);
  const uint32_t which = again ? sender.to_retransmit.first(sender.cumulative) : sender.next++;
  const uint32_t bytes = flow.bytes_of(which, full_bytes_);
  Sent& record = sender.sent_of(which);
  record = {wheel_.now(), again ? record.transmissions + 1 : 1};
  sender.departures.push({which, record.transmissions});
  sender.outstanding.set(which);
  ++sender.outstanding_packets;
  sender.bytes_in_flight += bytes;
  sender.controller.on_sent(preset(flow.src), bytes, now());
  if (again) {
    sender.to_retransmit.clear(which);
    --sender.lost;
    ++retransmitted_;
  }
  if (credited_) sender.requested = credit_to_request(flow);
  // A packet after which the sender cannot continue requests an immediate acknowledgement.
  const bool requests_ack = again || sender.next == flow.released ||
                            (credited_ && sender.controller.credit(preset(flow.src)) <= 0) ||
                            static_cast<uint64_t>(std::max<int64_t>(
                                sender.bytes_in_flight + bytes, 0)) >= sender.controller.window();
  Packet packet{};
  packet.tag.event = Event::data;
  packet.flow = number;
  packet.number = which;
  packet.bytes = static_cast<uint16_t>(bytes);
  packet.stamp = sender.requested;
  packet.entropy = sender.paths.next(now());
  packet.entropy |=
      (requests_ack ? fabric::kAckRequest : 0) | (again ? fabric::kRetransmission : 0);
  ++fabric_.counters().sent;
  fabric_.spray(port, packet);
  WEFT_DCHECK(sender.valid());
  arm_timer(number);
}

// The credit to request, in units granted since the flow began.
uint32_t Hosts::credit_to_request(const Flow& flow) const noexcept {
  const Sender& sender = flow.sender;
  const congestion::Preset& rules = preset(flow.src);
  const bool unsent = sender.next < flow.released;
  int64_t bytes = int64_t{full_bytes_} * (flow.released - sender.next + sender.lost);
  const bool short_one =
      flow.released == flow.packets &&
      (unsent || (sender.lost > 0 && sender.to_retransmit.test(flow.packets - 1)));
  if (short_one) bytes -= full_bytes_ - flow.last_bytes;
  if (sender.controller.window() != congestion::kNoWindow)
    bytes = std::min(bytes, static_cast<int64_t>(sender.controller.window()) + full_bytes_);
  bytes = std::min(bytes, congestion::most_credit(rules)) - sender.controller.credit(rules);
  if (!sender.responded && unsent) bytes = std::max<int64_t>(bytes, full_bytes_);
  const size_t flows = nics_[flow.src].flows.size();
  if (flows > 1) bytes /= static_cast<int64_t>(flows);
  bytes += int64_t{sender.granted} * congestion::kCreditUnit;
  if (bytes <= 0) return 0;
  return static_cast<uint32_t>((bytes + congestion::kCreditUnit - 1) / congestion::kCreditUnit);
}

void Hosts::receive_ack(const Packet& packet) {
  const AckBlock block = spray_.acks[packet.stamp];
  WEFT_DCHECK(packet.number <= flows_[packet.flow].sender.next);
  spray_.acks.give(packet.stamp);
  Flow& flow = flows_[packet.flow];
  if (flow.done()) return;
  Sender& sender = flow.sender;
  congestion::Ack ack;
  ack.now = now();
  ack.rtt = round_trip(sender, block, wheel_.now());
  if (block.received > sender.received) {
    ack.newly_acked = static_cast<uint32_t>(block.received - sender.received);
    sender.received = block.received;
    sender.bytes_in_flight -= ack.newly_acked;
  }
  take_cumulative(flow, packet.number, full_bytes_);
  take_selective(flow, block, full_bytes_);
  if (flow.messages != nullptr) messages_->acknowledged(packet.flow, sender.cumulative);
  // A packet that arrived twice was counted once: correct the error of bytes_in_flight.
  if (sender.outstanding_packets == 0) sender.bytes_in_flight = 0;
  ack.acked = uint64_t{sender.cumulative} * scheme_.payload;
  ack.sent = uint64_t{sender.next} * scheme_.payload;
  ack.in_flight = static_cast<uint64_t>(std::max<int64_t>(sender.bytes_in_flight, 0));
  ack.packet_bytes = scheme_.payload;
  ack.marked = packet.tag.marked;
  ack.retransmitted = block.retransmitted;
  ack.path = static_cast<uint16_t>(packet.entropy);
  if (block.answers != fabric::AckPool::kNoPacket)
    sender.paths.on_feedback(ack.path, ack.marked ? PathFeedback::marked : PathFeedback::good,
                             now());
  WEFT_DCHECK(sender.valid() && ack.acked <= ack.sent);
  sender.controller.on_ack(preset(flow.src), ack);
  sender.responded = true;
  if (flow.done()) return finish(packet.flow);
  try_send(packet.flow);
}

void Hosts::receive_nak(const Packet& packet) {
  Flow& flow = flows_[packet.flow];
  Sender& sender = flow.sender;
  const uint32_t number = packet.number;
  if (flow.done() || number < sender.cumulative || !sender.outstanding.test(number)) return;
  const bool last_hop = (packet.entropy & fabric::kLastHop) != 0;
  const auto path = static_cast<uint16_t>(packet.entropy);
  sender.controller.on_loss(
      preset(flow.src),
      {.now = now(),
       .acked = uint64_t{sender.cumulative} * scheme_.payload,
       .sent = uint64_t{sender.next} * scheme_.payload,
       .in_flight = static_cast<uint64_t>(std::max<int64_t>(sender.bytes_in_flight, 0)),
       .rtt = Duration{wheel_.now() - sender.sent_of(number).at},
       .bytes = flow.bytes_of(number, full_bytes_),
       .reason = congestion::Loss::Reason::trimmed,
       .last_hop = last_hop,
       .path = path});
  sender.responded = true;
  flow.mark_lost(number, full_bytes_);
  try_send(packet.flow);
  PathFeedback feedback = PathFeedback::not_arrived;
  if (last_hop) feedback = packet.tag.marked ? PathFeedback::marked : PathFeedback::good;
  sender.paths.on_feedback(path, feedback, now());
}

void Hosts::receive_grant(const Packet& packet) {
  Flow& flow = flows_[packet.flow];
  if (flow.done()) return;
  Sender& sender = flow.sender;
  congestion::Credit credit{.now = now()};
  if (packet.number > sender.granted) {
    credit.bytes = (packet.number - sender.granted) * congestion::kCreditUnit;
    sender.granted = packet.number;
  }
  sender.controller.on_credit(preset(flow.src), credit);
  sender.responded = true;
  try_send(packet.flow);
}

void Hosts::finish(uint32_t number) {
  WEFT_DCHECK(flows_[number].done() && finished_at_[number] == kNever);
  finished_at_[number] = wheel_.now();
  ++finished_;
}

}  // namespace weft::sim::spray
