// SPDX-License-Identifier: BSD-3-Clause
// One copy on transmit, into the packet that crosses the network; none on receive: the engine reads
// the packet, and release() gives it back to the pool.
#include "providers/port/sim/sim_port.hpp"

#include <cstring>

namespace weft::port {

namespace {

// The frame in one piece; false if it is longer than a packet can be.
bool fill(sim::Packet& packet, const transport::TxFrame& frame, bool ecn) noexcept {
  if (frame.length() > sim::Packet::kCapacity) return false;
  std::byte* at = packet.bytes;
  std::memcpy(at, frame.head, frame.head_length);
  at += frame.head_length;
  for (uint32_t i = 0; i < frame.span_count; ++i) {
    std::memcpy(at, frame.spans[i].data, frame.spans[i].length);
    at += frame.spans[i].length;
  }
  std::memcpy(at, frame.tail, frame.tail_length);
  packet.path = *frame.path;
  packet.length = frame.length();
  packet.ip_id = frame.ip_id;
  packet.ecn = ecn ? frame.ecn : 0;
  return true;
}

}  // namespace

transport::Capabilities sim_capabilities() {
  transport::Capabilities c;
  c.integrity_bits = 32;
  c.ecn = true;
  c.telemetry = true;
  return c;
}

SimPort::~SimPort() {
  while (!lent_.empty()) host_.network().pool().give(lent_.pop());
}

size_t SimPort::receive(std::span<transport::Frame> frames) noexcept {
  size_t n = 0;
  for (sim::PacketQueue& queue = host_.received(); n < frames.size() && !queue.empty(); ++n) {
    sim::Packet* const packet = queue.pop();
    lent_.push(packet);
    transport::Frame& frame = frames[n];
    frame = {};
    frame.path = &packet->path;
    frame.bytes = packet->bytes;
    frame.length = packet->length;
    frame.ip_id = hides_ip_id_ ? 0 : packet->ip_id;
    frame.ip_id_known = !hides_ip_id_;
    frame.ecn = packet->ecn;
  }
  return n;
}

void SimPort::release(std::span<const transport::Frame> frames) noexcept {
  for (size_t i = 0; i < frames.size(); ++i) host_.network().pool().give(lent_.pop());
}

size_t SimPort::transmit(std::span<const transport::TxFrame> frames) noexcept {
  sim::PacketPool& pool = host_.network().pool();
  size_t n = 0;
  for (; n < frames.size(); ++n) {
    sim::Packet* const packet = pool.take();
    sim::Host::Sent sent = sim::Host::Sent::no_route;
    if (!fill(*packet, frames[n], capabilities_.ecn)) {
      ++too_long_;
    } else {
      sent = host_.send(packet);
      if (sent == sim::Host::Sent::no_route) ++no_route_;
    }
    if (sent != sim::Host::Sent::taken) pool.give(packet);
    if (sent == sim::Host::Sent::wait) break;
  }
  return n;
}

bool SimPort::prepare_wait(std::vector<pollfd>& descriptors, bool want_transmit) {
  (void)descriptors;
  return host_.received().empty() && !want_transmit;
}

void SimPort::append_counters(std::vector<Counter>& counters) const {
  counters.push_back({"sim_no_route", no_route_});
  counters.push_back({"sim_too_long", too_long_});
}

}  // namespace weft::port
