// SPDX-License-Identifier: BSD-3-Clause
// The switch of a fabric for sprayed packets (UEC simulator): per egress port a data queue and,
// of strict priority, a control queue with acknowledgements, credit and trimmed packets. Of a data
// packet that does not fit and the last one queued, one is trimmed to its header: a fair coin
// decides which.
//
// A packet stays in its queue until it has been sent, because ECN is decided then, on what is left
// behind. Through an idle port it takes one event all the same: less than the lowest threshold can
// arrive meanwhile (one packet per other cable), so that it would not be marked.
#include <algorithm>
#include <utility>

#include "lib/base/check.hpp"
#include "lib/sim/fabric/fabric.hpp"
#include "lib/sim/fabric/stamping.hpp"

namespace weft::sim::fabric {

void Fabric::spray(uint32_t number, const Packet& packet) {
  Port& port = ports_[number];
  WEFT_DCHECK(port.free_at <= wheel_.now() && packet.bytes <= settings_.largest_packet);
  uint32_t stamp = packet.stamp;
  if (digests(port))
    stamp = update_digest(port, packet, settings_.telemetry, true, wheel_.now(), random_);
  port.free_at = wheel_.now() + port.time_of[packet.bytes];
  port.serving_bytes = packet.tag.control ? 0 : packet.bytes;
  port.sent_bytes += packet.bytes;
  put_on_wire(port, packet, port.free_at, stamp);
}

// Schedules the arrival of a packet that has left the port at `left_at`.
void Fabric::put_on_wire(const Port& port, const Packet& packet, int64_t left_at, uint32_t stamp) {
  if (port.faulty && link_loses(port, packet)) return;
  const int64_t at = left_at + port.delay;
  const uint32_t target = port.to_host ? port.to : spray_.routes.next(port.to, packet);
  if (target == Topology::kNone) return discard(packet, counters_.lost);
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
  if (discipline_.enabled() &&
      !discipline_.admits(packet, out, wheel_.now(), random_, counters_.marked) &&
      !trim(out, packet))
    return;
  if (idle(out)) return spray(packet.target, packet);
  if (!packet.tag.control && !fit_or_trim(out, packet)) return;
  if (packet.tag.control) {
    if (out.control_bytes + packet.bytes > 2 * out.limit) return discard(packet, counters_.dropped);
    out.control_bytes += packet.bytes;
    out.control.push(packet, pool_);
  } else {
    out.queue_bytes += packet.bytes;
    out.most_bytes = std::max(out.most_bytes, out.queue_bytes);
    out.data.push(packet, pool_);
  }
  schedule(packet.target, out);
}

// False: nothing is left to queue. Else `packet` is what to queue: itself, whole or trimmed, or the
// trimmed packet whose place it took.
bool Fabric::fit_or_trim(Port& out, Packet& packet) {
  WEFT_DCHECK(!packet.tag.control && out.limit > 0);
  const uint32_t sending = out.free_at > wheel_.now() ? out.serving_bytes : 0;
  if (out.queue_bytes + sending + packet.bytes <= out.limit) return true;
  const bool held = out.serving == Port::Serving::data;  // its first packet is being sent
  const bool other = random_.next() >> 63 != 0 && out.data.size() > (held ? 1u : 0u);
  if (other) {
    Packet& last = out.data.back();
    out.queue_bytes += packet.bytes;
    WEFT_DCHECK(out.queue_bytes >= last.bytes);
    out.queue_bytes -= last.bytes;
    std::swap(last, packet);
  }
  return trim(out, packet);
}

// False: the packet is dropped, as this network does not trim.
bool Fabric::trim(const Port& out, Packet& packet) {
  if (!settings_.trims) {
    discard(packet, counters_.dropped);
    return false;
  }
  ++counters_.trimmed;
  packet.bytes = static_cast<uint16_t>(settings_.trimmed_bytes);
  packet.tag.event = Event::trimmed;
  packet.tag.control = true;
  if (out.to_host) packet.entropy |= kLastHop;
  return true;
}

// The packet being sent has left: sends the next one.
void Fabric::end_service(uint32_t number) {
  Port& port = ports_[number];
  const int64_t now = wheel_.now();
  WEFT_DCHECK(port.free_at <= now);
  if (port.serving == Port::Serving::data) {
    Packet packet = port.data.pop(pool_);
    if (settings_.marks_last_hop || !port.to_host) mark(port, packet);
    put_on_wire(port, packet, now, packet.stamp);
  } else if (port.serving == Port::Serving::control) {
    const Packet packet = port.control.pop(pool_);
    WEFT_DCHECK(port.control_bytes >= packet.bytes);
    port.control_bytes -= packet.bytes;
    put_on_wire(port, packet, now, packet.stamp);
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
    WEFT_DCHECK(port.queue_bytes >= bytes);
    port.queue_bytes -= bytes;
    port.serving_bytes = bytes;
  }
  // All packets count: acknowledgements and trimmed packets are interleaved with data, and would
  // take what left before them out of the average.
  if (digests(port))
    packet.stamp = update_digest(port, packet, settings_.telemetry, true, wheel_.now(), random_);
  port.free_at = wheel_.now() + port.time_of[bytes];
  port.sent_bytes += bytes;
  schedule(number, port);
}

}  // namespace weft::sim::fabric
