// SPDX-License-Identifier: BSD-3-Clause
// The receiver of a sprayed flow, and the credit that its host grants.
#include <algorithm>

#include "lib/base/check.hpp"
#include "lib/sim/hosts/light_spray/hosts.hpp"

namespace weft::sim::spray {

using fabric::Event;
using fabric::Packet;

namespace {

constexpr uint32_t kGrantPaths = 128;  // entropy values of grants, round robin

// First number of a SACK bitmap that covers `number` and the packets shortly before it.
uint32_t sack_base(const Receiver& receiver, uint32_t number) {
  return std::max(number < 63 ? 0 : number - 63, receiver.expected + 1);
}

bool has_arrived(const Receiver& receiver, uint32_t number) {
  return number < receiver.expected || (number < receiver.high && receiver.arrived.test(number));
}

// True if the packet closes the last sequence gap and an acknowledgement was requested meanwhile.
bool record_arrival(Receiver& receiver, uint32_t number) {
  WEFT_DCHECK(!has_arrived(receiver, number));
  receiver.high = std::max(receiver.high, number + 1);
  if (number != receiver.expected) {
    receiver.arrived.cover(receiver.expected, receiver.high);
    receiver.arrived.set(number);
    ++receiver.out_of_order;
    return false;
  }
  ++receiver.expected;
  while (receiver.out_of_order > 0 && receiver.arrived.test(receiver.expected)) {
    receiver.arrived.clear(receiver.expected++);
    --receiver.out_of_order;
  }
  WEFT_DCHECK(receiver.expected + receiver.out_of_order <= receiver.high);
  const bool closed = receiver.out_of_order == 0 && receiver.ack_requested;
  if (closed) receiver.ack_requested = false;
  return closed;
}

}  // namespace

Hosts::Hosts(const fabric::Topology& topology, const flow::Scheme& scheme,
             fabric::EventWheel& wheel, fabric::ChunkPool& pool, fabric::Fabric& fabric,
             fabric::Spray& spray, size_t flow_count, uint64_t seed)
    : topology_(topology),
      scheme_(scheme),
      full_bytes_(scheme.payload + scheme.header),
      credited_(scheme.kind->credit != nullptr),
      seed_(seed * 0x9E3779B97F4A7C15),
      wheel_(wheel),
      pool_(pool),
      fabric_(fabric),
      spray_(spray),
      flows_(flow_count),
      nics_(topology.node_count()),
      finished_at_(flow_count, kNever) {
  spray.routes.resize(flow_count);
}

double Hosts::rate(uint32_t number) const noexcept {
  const Flow& flow = flows_[number];
  return flow.packets > 0 && !flow.done() ? flow.sender.controller.rate() : 0;
}

void Hosts::deliver(const Packet& packet) {
  ++fabric_.counters().delivered;
  switch (packet.tag.event) {
    case Event::data:
      return receive_data(packet);
    case Event::trimmed:
      return receive_trimmed(packet);
    case Event::probe:
      return receive_probe(packet);
    case Event::ack:
      return receive_ack(packet);
    case Event::nak:
      return receive_nak(packet);
    default:
      return receive_grant(packet);
  }
}

// ACK coalescing: acknowledges after ack_every_bytes; at once the first packet, one that is marked,
// a duplicate, and one that requests it.
void Hosts::receive_data(const Packet& packet) {
  Flow& flow = flows_[packet.flow];
  Receiver& receiver = flow.receiver;
  const uint32_t number = packet.number;
  WEFT_DCHECK(number < flow.packets && receiver.expected <= flow.packets);
  on_credit_request(flow, packet, false);
  receiver.unacked_bytes += packet.bytes;
  if (has_arrived(receiver, number)) {
    receiver.unacked_bytes = 0;
    return acknowledge(packet, packet.tag.marked,
                       packet.tag.marked ? number : sack_base(receiver, number));
  }
  ++data_delivered_;
  const bool first = receiver.received == 0;
  const bool requests_ack = (packet.entropy & fabric::kAckRequest) != 0;
  receiver.received += packet.bytes;
  receiver.ack_requested |= requests_ack;
  const bool closed = record_arrival(receiver, number);
  if (flow.messages != nullptr) messages_->arrived(packet.flow, receiver.expected);
  if (credited_ && receiver.expected == flow.packets)
    nics_[flow.dst].pacer->remove(receiver.credit_number);
  if (!packet.tag.marked && !first && !requests_ack && !closed &&
      receiver.unacked_bytes < scheme_.ack_every_bytes)
    return;
  receiver.unacked_bytes = 0;
  acknowledge(packet, packet.tag.marked,
              packet.tag.marked || requests_ack ? number : sack_base(receiver, number));
}

// The acknowledgement takes the entropy value of the packet that it answers.
void Hosts::acknowledge(const Packet& cause, bool marked, uint32_t base) {
  const Flow& flow = flows_[cause.flow];
  const Receiver& receiver = flow.receiver;
  base = std::max(base, receiver.expected);
  Packet packet{};
  packet.tag.event = Event::ack;
  packet.tag.control = true;
  packet.tag.marked = marked;
  packet.flow = cause.flow;
  packet.number = receiver.expected;
  packet.bytes = static_cast<uint16_t>(scheme_.ack_bytes);
  packet.entropy = cause.entropy & fabric::kEntropyBits;
  packet.stamp = spray_.acks.take();
  const bool gaps = receiver.out_of_order > 0 && base < receiver.high;
  spray_.acks[packet.stamp] = {.received = receiver.received,
                               .arrived = gaps ? receiver.arrived.word(base) : 0,
                               .base = base,
                               .answers = cause.number,
                               .retransmitted = (cause.entropy & fabric::kRetransmission) != 0};
  send_control(flow.dst, packet);
}

void Hosts::receive_trimmed(const Packet& packet) {
  Flow& flow = flows_[packet.flow];
  if (has_arrived(flow.receiver, packet.number))
    return acknowledge(packet, false, sack_base(flow.receiver, packet.number));
  on_credit_request(flow, packet, true);
  Packet nak = packet;  // with its number, entropy value, mark and where it was trimmed
  nak.tag.event = Event::nak;
  nak.hop = 0;
  nak.bytes = static_cast<uint16_t>(scheme_.ack_bytes);
  send_control(flow.dst, nak);
}

void Hosts::receive_probe(const Packet& packet) {
  on_credit_request(flows_[packet.flow], packet, true);
  acknowledge(packet, false, flows_[packet.flow].receiver.expected);
}

// `needs_grant`: the sender has a packet to retransmit, and is granted credit without a request.
void Hosts::on_credit_request(const Flow& flow, const Packet& packet, bool needs_grant) {
  if (!credited_) return;
  congestion::CreditPacer& pacer = *nics_[flow.dst].pacer;
  pacer.request_credit(flow.receiver.credit_number, packet.stamp);
  if (needs_grant) pacer.ask(flow.receiver.credit_number);
  schedule_grants(flow.dst);
}

void Hosts::schedule_grants(uint32_t node) {
  Nic& nic = nics_[node];
  if (nic.grant_scheduled) return;
  nic.grant_scheduled = true;
  wheel_.plan(wheel_.now(), Event::host_timer, node);
}

void Hosts::host_timer(const Packet& event) {
  Nic& nic = nics_[event.target];
  const std::optional<congestion::CreditPacer::Grant> grant = nic.pacer->grant();
  nic.grant_scheduled = grant.has_value();
  if (!grant) return;
  WEFT_DCHECK(grant->sender < nic.flow_of_sender.size());
  const uint32_t number = nic.flow_of_sender[grant->sender];
  Receiver& receiver = flows_[number].receiver;
  Packet packet{};
  packet.tag.event = Event::credit_grant;
  packet.tag.control = true;
  packet.flow = number;
  packet.number = grant->total;
  packet.bytes = static_cast<uint16_t>(scheme_.ack_bytes);
  packet.entropy = receiver.grant_entropy = (receiver.grant_entropy + 1) % kGrantPaths;
  send_control(event.target, packet);
  wheel_.plan(wheel_.now() + grant->next.ps, Event::host_timer, event.target);
}

}  // namespace weft::sim::spray
