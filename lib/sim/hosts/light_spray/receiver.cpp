// SPDX-License-Identifier: BSD-3-Clause
// The receiver of a sprayed flow, and the turns of its host's credit.
#include <algorithm>

#include "lib/sim/hosts/light_spray/hosts.hpp"

namespace weft::sim::spray {

using fabric::Event;
using fabric::Packet;

namespace {

constexpr uint32_t kGrantPaths = 128;  // entropy values of grants, in turns

// Where the bits of an acknowledgement begin that tells of `number` and what came shortly before.
uint32_t usual_base(const Receiver& receiver, uint32_t number) {
  return std::max(number < 63 ? 0 : number - 63, receiver.expected + 1);
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
    case Event::ask:
      return receive_ask(packet);
    case Event::ack:
      return receive_ack(packet);
    case Event::nak:
      return receive_nak(packet);
    default:
      return receive_grant(packet);
  }
}

// Acknowledges when enough has come since the last time, and at once what is new, marked, sent
// again or asked for.
void Hosts::receive_data(const Packet& packet) {
  Flow& flow = flows_[packet.flow];
  Receiver& receiver = flow.receiver;
  const uint32_t number = packet.number;
  hear_wish(flow, packet, false);
  receiver.unanswered += packet.bytes;
  if (has(receiver, number)) {
    receiver.unanswered = 0;
    return acknowledge(packet, packet.tag.marked,
                       packet.tag.marked ? number : usual_base(receiver, number));
  }
  ++data_delivered_;
  const bool first = receiver.received == 0;
  const bool asks = (packet.entropy & fabric::kAsksForAck) != 0;
  receiver.received += packet.bytes;
  receiver.asked |= asks;
  const bool closed = take_in(receiver, number);
  if (credited_ && receiver.expected == flow.packets)
    nics_[flow.dst].pacer->remove(receiver.credit);
  if (!packet.tag.marked && !first && !asks && !closed &&
      receiver.unanswered < scheme_.ack_every_bytes)
    return;
  receiver.unanswered = 0;
  acknowledge(packet, packet.tag.marked,
              packet.tag.marked || asks ? number : usual_base(receiver, number));
}

// True if that closes the last gap, and an acknowledgement was asked for meanwhile.
bool Hosts::take_in(Receiver& receiver, uint32_t number) {
  receiver.high = std::max(receiver.high, number + 1);
  if (number != receiver.expected) {
    receiver.arrived.cover(receiver.expected, receiver.high);
    receiver.arrived.set(number);
    ++receiver.beyond;
    return false;
  }
  ++receiver.expected;
  while (receiver.beyond > 0 && receiver.arrived.test(receiver.expected)) {
    receiver.arrived.clear(receiver.expected++);
    --receiver.beyond;
  }
  const bool closed = receiver.beyond == 0 && receiver.asked;
  if (closed) receiver.asked = false;
  return closed;
}

// Travels on the entropy value of what it answers.
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
  const bool beyond = receiver.beyond > 0 && base < receiver.high;
  spray_.acks[packet.stamp] = {.received = receiver.received,
                               .arrived = beyond ? receiver.arrived.word(base) : 0,
                               .base = base,
                               .cause = cause.number,
                               .again = (cause.entropy & fabric::kSentAgain) != 0};
  send_control(flow.dst, packet);
}

void Hosts::receive_trimmed(const Packet& packet) {
  Flow& flow = flows_[packet.flow];
  if (has(flow.receiver, packet.number))
    return acknowledge(packet, false, usual_base(flow.receiver, packet.number));
  hear_wish(flow, packet, true);
  Packet nak = packet;  // with its number, entropy value, mark and where it was trimmed
  nak.tag.event = Event::nak;
  nak.hop = 0;
  nak.bytes = static_cast<uint16_t>(scheme_.ack_bytes);
  send_control(flow.dst, nak);
}

void Hosts::receive_ask(const Packet& packet) {
  hear_wish(flows_[packet.flow], packet, true);
  acknowledge(packet, false, flows_[packet.flow].receiver.expected);
}

// How much credit the sender would like. One that has something to repeat needs a turn anyway.
void Hosts::hear_wish(const Flow& flow, const Packet& packet, bool needs_turn) {
  if (!credited_) return;
  congestion::CreditPacer& pacer = *nics_[flow.dst].pacer;
  pacer.wish(flow.receiver.credit, packet.stamp);
  if (needs_turn) pacer.ask(flow.receiver.credit);
  start_granting(flow.dst);
}

void Hosts::start_granting(uint32_t node) {
  Nic& nic = nics_[node];
  if (nic.granting) return;
  nic.granting = true;
  wheel_.plan(wheel_.now(), Event::host_timer, node);
}

void Hosts::host_timer(const Packet& event) {
  Nic& nic = nics_[event.target];
  const std::optional<congestion::CreditPacer::Grant> grant = nic.pacer->grant();
  nic.granting = grant.has_value();
  if (!grant) return;
  const uint32_t number = nic.credited[grant->sender];
  Receiver& receiver = flows_[number].receiver;
  Packet packet{};
  packet.tag.event = Event::grant;
  packet.tag.control = true;
  packet.flow = number;
  packet.number = grant->total;
  packet.bytes = static_cast<uint16_t>(scheme_.ack_bytes);
  packet.entropy = receiver.turn = (receiver.turn + 1) % kGrantPaths;
  send_control(event.target, packet);
  wheel_.plan(wheel_.now() + grant->next.ps, Event::host_timer, event.target);
}

}  // namespace weft::sim::spray
