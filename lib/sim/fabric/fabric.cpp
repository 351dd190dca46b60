// SPDX-License-Identifier: BSD-3-Clause
// The way of a packet through a switch: forward() on arrival, depart() when its turn has come,
// transmit() onto the wire.
#include "lib/sim/fabric/fabric.hpp"

#include <algorithm>

#include "lib/base/check.hpp"
#include "lib/sim/fabric/buffer.hpp"

namespace weft::sim::fabric {
namespace {

// Serialisation times in ps. In whole nanoseconds they are cut off, and a time that is a whole
// number loses one: the authors' simulator computes bytes x 8 / rate in floating point and then
// truncates a value just below it (HPCC simulator; 1050 B at 100G take 83 ns, not 84).
std::vector<int64_t> times_at(uint32_t mbps, uint32_t largest, bool whole_ns) {
  std::vector<int64_t> times(largest + 1);
  for (uint32_t bytes = 1; bytes <= largest; ++bytes) {
    const int64_t nanobits = int64_t{bytes} * 8 * 1000;
    times[bytes] = whole_ns ? (nanobits - 1) / mbps * 1000 : (nanobits * 1000 + mbps - 1) / mbps;
  }
  return times;
}

uint32_t count_doublings(uint32_t mbps, uint32_t nic_mbps) {
  uint32_t doublings = 0;
  while (mbps >= 2 * uint64_t{nic_mbps} << doublings) ++doublings;
  return doublings;
}

}  // namespace

Fabric::Fabric(const Topology& topology, const Settings& settings, EventWheel& wheel,
               ChunkPool& pool, RouteTable& routes, TelemetryPool& telemetry, Spray& spray,
               base::Random& random)
    : topology_(topology),
      settings_(settings),
      wheel_(wheel),
      pool_(pool),
      routes_(routes),
      telemetry_(telemetry),
      spray_(spray),
      random_(random) {
  make_ports();
  make_switches();
}

void Fabric::make_ports() {
  ports_.resize(topology_.port_count());
  for (uint32_t i = 0; i < ports_.size(); ++i) {
    Port& port = ports_[i];
    port.delay = topology_.cable(i).delay_ns * 1000;
    port.node = topology_.from(i);
    port.to = topology_.to(i);
    port.at_host = topology_.is_host(port.node);
    port.to_host = topology_.is_host(port.to);
    set_rate(i, topology_.mbps(i));
  }
}

// What follows from a port's rate, but for its headroom: that stays as it was laid out.
void Fabric::set_rate(uint32_t number, uint32_t mbps) {
  Port& port = ports_[number];
  if (port.mbps != 0) port.busy_ns = busy_ns(number);
  port.counted_bytes = port.sent_bytes;
  port.mbps = mbps;
  std::vector<int64_t>& times = times_[mbps];
  if (times.empty()) times = times_at(mbps, settings_.largest_packet, settings_.whole_ns);
  port.time_of = times.data();
  const double gbps = mbps / 1000.0;
  port.kmin = static_cast<uint32_t>(settings_.kmin_bytes_per_gbps * gbps);
  port.kmax = static_cast<uint32_t>(settings_.kmax_bytes_per_gbps * gbps);
  if (settings_.sprayed) port.limit = static_cast<uint32_t>(settings_.queue_bytes_per_gbps * gbps);
  for (uint32_t c = 0; classed() && c < kClasses; ++c) {
    lane(number, c).kmin = port.kmin;
    lane(number, c).kmax = port.kmax;
  }
}

// Headroom: what may still arrive after a PAUSE was sent. The threshold's shift is one less per
// doubling of the port's rate above that of the NICs (HPCC simulator).
void Fabric::make_switches() {
  switches_.resize(topology_.node_count());
  for (uint32_t node = 0; node < switches_.size(); ++node) {
    if (topology_.is_host(node) || settings_.sprayed) continue;
    switches_[node].pool = static_cast<int64_t>(settings_.buffer);
    for (const uint32_t number : topology_.ports_of(node)) {
      Port& port = ports_[number];
      const double bits_per_ns = port.mbps / 1000.0;
      const double delay_ns = static_cast<double>(topology_.cable(number).delay_ns);
      if (settings_.pfc)
        port.headroom = static_cast<uint32_t>(
            std::min(settings_.headroom_factor * bits_per_ns * delay_ns / 8, 2e9));
      const uint32_t doublings = count_doublings(port.mbps, topology_.nic_mbps());
      port.pause_shift = static_cast<uint8_t>(
          settings_.pause_shift > doublings ? settings_.pause_shift - doublings : 0);
      switches_[node].pool -= int64_t{port.headroom} + settings_.reserve;
    }
    switches_[node].pool = std::max<int64_t>(switches_[node].pool, 0);
  }
}

void Fabric::forward(Packet& packet) {
  ++counters_.hops;
  if (settings_.sprayed) return forward_sprayed(packet);
  Port& out = ports_[packet.target];
  if (!packet.tag.control)
    return lanes_.empty() ? forward_data(out, packet) : forward_classed(packet);
  if (idle(out)) return transmit(packet.target, packet);
  out.control_bytes += packet.bytes;
  out.control.push(packet, pool_);
  schedule(packet.target, out);
}

void Fabric::forward_data(Port& out, Packet& packet) {
  Port& in = ports_[packet.ingress];
  // An idle port that is not paused has an empty queue. If the packet fits the reserve nothing can
  // come of accounting it, since it is taken out in the same instant.
  const bool goes_on = idle(out) && !out.paused;
  if (goes_on && in.headroom_used == 0 && in.ingress_bytes + packet.bytes <= settings_.reserve)
    return transmit(packet.target, packet);
  if (!admit(in, packet.bytes)) return drop(packet);
  pause_if_needed(in, packet.ingress, 0);
  out.queue_bytes += packet.bytes;
  if (goes_on) return depart(out, packet);
  out.most_bytes = std::max(out.most_bytes, out.queue_bytes);
  out.data.push(packet, pool_);
  if (!out.paused) schedule(packet.target, out);
}

void Fabric::drop(const Packet& packet) {
  ++counters_.dropped;
  give_back(packet);
}

// What a packet carried that is no more: its telemetry, its acknowledgement block, the frame of an
// engine.
void Fabric::give_back(const Packet& packet) {
  if (settings_.sprayed) {
    if (packet.tag.event == Event::ack) spray_.acks.give(packet.stamp);
  } else if (settings_.telemetry.mode == Telemetry::records && packet.tag.event != Event::nak) {
    telemetry_.give(packet.stamp);
  }
  if (on_drop_) on_drop_(packet);
}

// Asks for a port_free event when the packet being sent has left.
void Fabric::schedule(uint32_t number, Port& port) {
  if (port.scheduled) return;
  port.scheduled = true;
  wheel_.plan(std::max(port.free_at, wheel_.now()), Event::port_free, number);
}

void Fabric::port_free(uint32_t number) {
  ports_[number].scheduled = false;
  settings_.sprayed ? end_service(number) : serve(number);
}

// Sends the next packet of an idle port, and comes back for the one behind it.
void Fabric::serve(uint32_t number) {
  if (!lanes_.empty()) return serve_classed(number);
  Port& port = ports_[number];
  if (!port.control.empty()) {
    Packet packet = port.control.pop(pool_);
    port.control_bytes -= packet.bytes;
    transmit(number, packet);
  } else if (!port.data.empty() && !port.paused) {
    Packet packet = port.data.pop(pool_);
    depart(port, packet);
  } else {
    return;
  }
  if (!port.control.empty() || (!port.data.empty() && !port.paused)) schedule(number, port);
}

// A packet of class 3 is taken from the queue: it leaves the accounts, meets ECN on what is left
// behind, and lets its ingress resume.
void Fabric::depart(Port& out, Packet& packet) {
  Port& in = ports_[packet.ingress];
  release(in, packet.bytes);
  out.queue_bytes -= packet.bytes;
  if (packet.tag.event == Event::data) mark(out, packet);
  const uint32_t ingress = packet.ingress;
  const uint32_t number = packet.target;
  transmit(number, packet);
  resume_if_possible(in, ingress, 0);
}

void Fabric::transmit(uint32_t number, const Packet& packet) {
  Port& port = ports_[number];
  const Event event = packet.tag.event;
  uint32_t stamped = packet.stamp;
  if (settings_.telemetry.mode != Telemetry::none && !port.at_host) {
    if (settings_.telemetry.mode == Telemetry::digest)
      stamped = digest(port, packet);
    else if (event == Event::data)
      stamp(port, packet);
  }
  port.free_at = wheel_.now() + port.time_of[packet.bytes];
  port.sent_bytes += packet.bytes;
  if (port.faulty && lost(port, packet)) return;
  const uint32_t hop = packet.hop + 1u;
  uint32_t target = port.to;
  if (event == Event::pause || event == Event::resume) {
    target = number ^ 1;
  } else if (rerouted_ && !port.to_host) {
    target = find_way(port, packet);
    if (target == Topology::kNone) return lose(packet);
  } else if (!port.to_host) {
    target = event == Event::data ? routes_.forward(packet.flow, hop)
                                  : routes_.backward(packet.flow, hop);
  }
  const int64_t at = port.free_at + port.delay;
  Packet& sent = wheel_.place(at);
  sent.at = at;
  sent.target = target;
  sent.ingress = number ^ 1;
  sent.flow = packet.flow;
  sent.number = packet.number;
  sent.stamp = stamped;
  sent.bytes = packet.bytes;
  sent.tag = packet.tag;
  sent.tag.at_host = port.to_host;
  sent.hop = static_cast<uint8_t>(hop);
}

// What INT says of a port (HPCC simulator): time = start of serialisation, queue = bytes of all
// classes left behind, sent = bytes that the port has sent before this packet. Only switches stamp.
void Fabric::stamp(Port& port, const Packet& packet) {
  TelemetryBlock& block = telemetry_[packet.stamp];
  if (block.count == congestion::kMaxHops) return;
  const TelemetrySettings& steps = settings_.telemetry;
  const uint32_t queue = port.queue_bytes + port.control_bytes;
  const auto sent = static_cast<uint32_t>(port.sent_bytes / steps.sent_step * steps.sent_step);
  block.hops[block.count++] = {port.mbps, static_cast<uint32_t>(wheel_.now() / 1000), sent,
                               queue / steps.queue_step * steps.queue_step};
}

// hpcc-pint (HPCC simulator). Every packet moves what the next one looks back to; only data counts
// in the port's average, and carries its code on if that is the largest so far. Where packets are
// sprayed all do: acknowledgements and cut packets go in between, and would take what left before
// them out of the average.
uint32_t Fabric::digest(Port& port, const Packet& packet) {
  const congestion::IntHop hop{port.mbps, static_cast<uint32_t>(wheel_.now() / 1000),
                               static_cast<uint32_t>(port.sent_bytes),
                               port.queue_bytes + port.control_bytes};
  const bool data = packet.tag.event == Event::data && !packet.tag.control;
  if (!data && !settings_.sprayed) return port.digest.skip(hop), packet.stamp;
  const double utilisation = port.digest.pass(hop, settings_.telemetry.base_rtt_ns);
  const double draw = static_cast<double>(random_.next() >> 11) * 0x1p-53;
  return std::max<uint32_t>(packet.stamp, congestion::encode_digest(utilisation, draw));
}

bool Fabric::empty() const noexcept {
  for (const Port& port : ports_)
    if (!port.data.empty() || !port.control.empty() || port.queue_bytes != 0 ||
        port.ingress_bytes != 0 || (!settings_.sprayed && port.headroom_used != 0))
      return false;
  for (const Lane& lane : lanes_)
    if (!lane.data.empty() || lane.queue_bytes != 0 || lane.ingress_bytes != 0 ||
        lane.headroom_used != 0)
      return false;
  return std::all_of(switches_.begin(), switches_.end(),
                     [](const Switch& s) { return s.shared_used == 0; });
}

double Fabric::busy_ns(uint32_t number) const noexcept {
  const Port& port = ports_[number];
  return port.busy_ns +
         static_cast<double>(port.sent_bytes - port.counted_bytes) * 8000.0 / port.mbps;
}

uint64_t Fabric::waiting() const noexcept {
  uint64_t count = 0;
  for (const Port& port : ports_) count += port.data.size() + port.control.size();
  for (const Lane& lane : lanes_) count += lane.data.size();
  return count;
}

}  // namespace weft::sim::fabric
