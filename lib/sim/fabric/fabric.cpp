// SPDX-License-Identifier: BSD-3-Clause
// A packet's path through a switch: forward() on arrival, depart() from the egress queue,
// transmit() onto the wire.
#include "lib/sim/fabric/fabric.hpp"

#include <algorithm>

#include "lib/base/check.hpp"
#include "lib/sim/fabric/stamping.hpp"

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
      random_(random),
      buffer_(settings_),
      classes_(settings_.class_weights),
      discipline_(settings_.discipline, topology.port_count()) {
  make_ports();
  set_buffers_and_headroom();
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

// Derives what depends on a port's rate, except its headroom, which stays that of the first rate.
void Fabric::set_rate(uint32_t number, uint32_t mbps) {
  WEFT_DCHECK(number < ports_.size() && mbps > 0);
  Port& port = ports_[number];
  if (port.mbps != 0) port.busy_ns = busy_ns(port);
  port.counted_bytes = port.sent_bytes;
  port.mbps = mbps;
  std::vector<int64_t>& times = times_[mbps];
  if (times.empty()) times = times_at(mbps, settings_.largest_packet, settings_.whole_ns);
  port.time_of = times.data();
  const double gbps = mbps / 1000.0;
  port.kmin = static_cast<uint32_t>(settings_.kmin_bytes_per_gbps * gbps);
  port.kmax = static_cast<uint32_t>(settings_.kmax_bytes_per_gbps * gbps);
  if (settings_.sprayed) port.limit = static_cast<uint32_t>(settings_.queue_bytes_per_gbps * gbps);
  for (uint32_t c = 0; classes_.enabled() && c < kClasses; ++c) {
    classes_.queue(number, c).kmin = port.kmin;
    classes_.queue(number, c).kmax = port.kmax;
  }
}

// Headroom: what may still arrive after a PAUSE was sent. The threshold's shift is one less per
// doubling of the port's rate above that of the NICs (HPCC simulator).
void Fabric::set_buffers_and_headroom() {
  buffer_.resize(topology_.node_count());
  for (uint32_t node = 0; node < topology_.node_count(); ++node) {
    if (topology_.is_host(node) || settings_.sprayed) continue;
    buffer_.set_buffer(node, settings_.buffer);
    for (const uint32_t number : topology_.ports_of(node)) {
      Port& port = ports_[number];
      const double bits_per_ns = port.mbps / 1000.0;
      const double delay_ns = static_cast<double>(topology_.cable(number).delay_ns);
      if (settings_.pfc)
        port.headroom = static_cast<uint32_t>(
            std::min(settings_.headroom_factor * bits_per_ns * delay_ns / 8, 2e9));
      const uint32_t doublings = count_doublings(port.mbps, topology_.nic_mbps());
      port.threshold_shift = static_cast<uint8_t>(
          settings_.threshold_shift > doublings ? settings_.threshold_shift - doublings : 0);
      buffer_.subtract_ingress(node, port.headroom);
    }
  }
  buffer_.clamp_capacity();
}

void Fabric::forward(Packet& packet) {
  WEFT_DCHECK(packet.target < ports_.size() && !ports_[packet.target].at_host);
  ++counters_.hops;
  if (settings_.sprayed) return forward_sprayed(packet);
  Port& out = ports_[packet.target];
  if (!packet.tag.control)
    return classes_.enabled() ? forward_classed(packet) : forward_data(out, packet);
  if (idle(out)) return transmit(packet.target, packet);
  out.control_bytes += packet.bytes;
  out.control.push(packet, pool_);
  schedule(packet.target, out);
}

void Fabric::forward_data(Port& out, Packet& packet) {
  if (discipline_.enabled() &&
      !discipline_.admits(packet, out, wheel_.now(), random_, counters_.marked))
    return discard(packet, counters_.dropped);
  Port& in = ports_[packet.ingress];
  // An idle port that is not paused has an empty queue. A packet that fits the reserve needs no
  // accounting there, since it would be released in the same instant.
  const bool cut_through = idle(out) && !out.paused;
  WEFT_DCHECK(in.node == out.node && (!cut_through || out.data.empty()));
  if (cut_through && buffer_.fits_reserve(in, packet.bytes)) return transmit(packet.target, packet);
  if (!buffer_.admit(in, packet.bytes)) return discard(packet, counters_.dropped);
  if (buffer_.begin_pause(in)) send_pfc(packet.ingress, Event::pause, 0);
  out.queue_bytes += packet.bytes;
  if (cut_through) return depart(out, packet);
  out.most_bytes = std::max(out.most_bytes, out.queue_bytes);
  out.data.push(packet, pool_);
  if (!out.paused) schedule(packet.target, out);
}

// Frees what the packet refers to: its telemetry, its acknowledgement block, an engine's frame.
void Fabric::discard(const Packet& packet, uint64_t& reason) {
  ++reason;
  if (settings_.sprayed) {
    if (packet.tag.event == Event::ack) spray_.acks.give(packet.stamp);
  } else if (settings_.telemetry.mode == Telemetry::records && packet.tag.event != Event::nak) {
    telemetry_.give(packet.stamp);
  }
  if (on_drop_) on_drop_(packet);
}

// Schedules a port_free event for when the packet being sent has left.
void Fabric::schedule(uint32_t number, Port& port) {
  if (port.scheduled) return;
  WEFT_DCHECK(!port.at_host);
  port.scheduled = true;
  wheel_.plan(std::max(port.free_at, wheel_.now()), Event::port_free, number);
}

void Fabric::port_free(uint32_t number) {
  WEFT_DCHECK(ports_[number].scheduled);
  ports_[number].scheduled = false;
  settings_.sprayed ? end_service(number) : serve(number);
}

// Sends the next packet of an idle port, and schedules the one behind it.
void Fabric::serve(uint32_t number) {
  if (classes_.enabled()) return serve_classed(number);
  Port& port = ports_[number];
  WEFT_DCHECK(port.free_at <= wheel_.now());
  if (!port.control.empty()) {
    Packet packet = port.control.pop(pool_);
    WEFT_DCHECK(port.control_bytes >= packet.bytes);
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

// Sends a packet of class 3 that was taken from the queue: releases its buffer, marks it by what is
// left behind, and sends the RESUME of its ingress if that fell below the threshold.
void Fabric::depart(Port& out, Packet& packet) {
  Port& in = ports_[packet.ingress];
  buffer_.release(in, packet.bytes);
  WEFT_DCHECK(out.queue_bytes >= packet.bytes);
  out.queue_bytes -= packet.bytes;
  if (packet.tag.event == Event::data) mark(out, packet);
  const uint32_t ingress = packet.ingress;
  const uint32_t number = packet.target;
  transmit(number, packet);
  if (buffer_.end_pause(in)) send_pfc(ingress, Event::resume, 0);
}

void Fabric::transmit(uint32_t number, const Packet& packet) {
  Port& port = ports_[number];
  const Event event = packet.tag.event;
  uint32_t stamped = packet.stamp;
  WEFT_DCHECK(port.free_at <= wheel_.now() && packet.bytes <= settings_.largest_packet);
  if (settings_.telemetry.mode != Telemetry::none && !port.at_host) {  // only switches stamp
    if (settings_.telemetry.mode == Telemetry::digest)
      stamped = update_digest(port, packet, settings_.telemetry,
                              event == Event::data && !packet.tag.control, wheel_.now(), random_);
    else if (event == Event::data &&
             !add_record(telemetry_[packet.stamp], settings_.telemetry, port, wheel_.now()))
      ++counters_.unrecorded;
  }
  port.free_at = wheel_.now() + port.time_of[packet.bytes];
  port.sent_bytes += packet.bytes;
  if (port.faulty && link_loses(port, packet)) return;
  const uint32_t hop = packet.hop + 1u;
  uint32_t target = port.to;
  if (event == Event::pause || event == Event::resume) {
    target = number ^ 1;
  } else if (rerouted_ && !port.to_host) {
    target = next_port(port, packet);
    if (target == Topology::kNone) return discard(packet, counters_.lost);
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

}  // namespace weft::sim::fabric
