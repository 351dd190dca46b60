// SPDX-License-Identifier: BSD-3-Clause
// The switch of a fabric for sprayed packets (UEC simulator): per egress port a data queue and,
// strictly first, a control queue with acknowledgements, grants and trimmed packets. A data packet
// that does not fit is cut to its header, or the last one queued is: a fair coin says which.
//
// A packet stays in its queue until it has been sent, because ECN is decided then, on what is left
// behind. Through an idle port it goes in one event all the same: less than the least threshold can
// arrive meanwhile (one packet per other cable), so that it would not be marked.
#include <algorithm>
#include <utility>

#include "lib/sim/fabric/buffer.hpp"

namespace weft::sim::fabric {

void Fabric::spray(uint32_t number, const Packet& packet) {
  Port& port = ports_[number];
  const uint32_t stamp = digests(port) ? digest(port, packet) : packet.stamp;
  port.free_at = wheel_.now() + port.time_of[packet.bytes];
  port.serving_bytes = packet.tag.control ? 0 : packet.bytes;
  port.sent_bytes += packet.bytes;
  launch(port, packet, port.free_at, stamp);
}

// Puts a packet on its way that has left the port at `left_at`.
void Fabric::launch(const Port& port, const Packet& packet, int64_t left_at, uint32_t stamp) {
  if (port.faulty && lost(port, packet)) return;
  const int64_t at = left_at + port.delay;
  const uint32_t target = port.to_host ? port.to : spray_.routes.next(port.to, packet);
  if (target == Topology::kNone) return lose(packet);
  // Field by field, as in transmit().
  Packet& sent = wheel_.place(at);
  sent.at = at;
  sent.target = target;
  sent.entropy = packet.entropy;
  sent.flow = packet.flow;
  sent.number = packet.number;
  sent.stamp = stamp;
  sent.bytes = packet.bytes;
  sent.tag = packet.tag;
  sent.tag.at_host = port.to_host;
  sent.hop = static_cast<uint8_t>(packet.hop + 1);
}

void Fabric::forward_sprayed(Packet& packet) {
  Port& out = ports_[packet.target];
  if (idle(out)) return spray(packet.target, packet);
  if (!packet.tag.control && !make_room(out, packet)) return;
  if (packet.tag.control) {
    if (out.control_bytes + packet.bytes > 2 * out.limit) return drop(packet);
    out.control_bytes += packet.bytes;
    out.control.push(packet, pool_);
  } else {
    out.queue_bytes += packet.bytes;
    out.most_bytes = std::max(out.most_bytes, out.queue_bytes);
    out.data.push(packet, pool_);
  }
  schedule(packet.target, out);
}

// True if there is something to queue: the packet, whole or cut, or the one whose place it took.
bool Fabric::make_room(Port& out, Packet& packet) {
  const uint32_t sending = out.free_at > wheel_.now() ? out.serving_bytes : 0;
  if (out.queue_bytes + sending + packet.bytes <= out.limit) return true;
  const bool held = out.serving == Port::Serving::data;  // its first packet is being sent
  const bool other = random_.next() >> 63 != 0 && out.data.size() > (held ? 1u : 0u);
  if (other) {
    Packet& last = out.data.back();
    out.queue_bytes += packet.bytes;
    out.queue_bytes -= last.bytes;
    std::swap(last, packet);
  }
  return cut(out, packet);
}

bool Fabric::cut(Port& out, Packet& packet) {
  if (!settings_.trims) {
    drop(packet);
    return false;
  }
  ++counters_.trimmed;
  packet.bytes = static_cast<uint16_t>(settings_.trimmed_bytes);
  packet.tag.event = Event::trimmed;
  packet.tag.control = true;
  if (out.to_host) packet.entropy |= kLastHop;
  return true;
}

// The packet being sent has left; the next one's turn.
void Fabric::end_service(uint32_t number) {
  Port& port = ports_[number];
  const int64_t now = wheel_.now();
  if (port.serving == Port::Serving::data) {
    Packet packet = port.data.pop(pool_);
    if (settings_.marks_last_hop || !port.to_host) mark(port, packet);
    launch(port, packet, now, packet.stamp);
  } else if (port.serving == Port::Serving::control) {
    const Packet packet = port.control.pop(pool_);
    port.control_bytes -= packet.bytes;
    launch(port, packet, now, packet.stamp);
  }
  begin_service(number, port);
}

void Fabric::begin_service(uint32_t number, Port& port) {
  using Serving = Port::Serving;
  port.serving = !port.control.empty() ? Serving::control
                 : !port.data.empty()  ? Serving::data
                                       : Serving::nothing;
  port.serving_bytes = 0;
  if (port.serving == Serving::nothing) return;
  Packet& packet = port.serving == Serving::control ? port.control.front() : port.data.front();
  const uint32_t bytes = packet.bytes;
  if (port.serving == Serving::data) {
    port.queue_bytes -= bytes;
    port.serving_bytes = bytes;
  }
  if (digests(port)) packet.stamp = digest(port, packet);
  port.free_at = wheel_.now() + port.time_of[bytes];
  port.sent_bytes += bytes;
  schedule(number, port);
}

}  // namespace weft::sim::fabric
