// SPDX-License-Identifier: BSD-3-Clause
// See spray_port.hpp.
#include "lib/sim/hosts/engine/spray_port.hpp"

#include <algorithm>
#include <cstring>

#include "lib/base/check.hpp"
#include "lib/wire/srd_headers.hpp"

namespace weft::sim::engines {

using fabric::Event;
using fabric::Packet;

uint32_t SprayWiring::pair_of(uint32_t src, uint32_t dst) {
  const auto next = static_cast<uint32_t>(pairs.size());
  const auto [entry, is_new] = numbers.try_emplace(uint64_t{src} << 32 | dst, next);
  if (is_new) {
    pairs.push_back({src, dst});
    routes.resize(pairs.size());
    routes.set(next, src, dst);
  }
  return entry->second;
}

SprayPort::SprayPort(SprayWiring& wiring, uint32_t node, uint32_t number)
    : NicPort(node),
      wiring_(wiring),
      node_(node),
      number_(number),
      digests_(wiring.scheme.fabric.telemetry.mode == fabric::Telemetry::digest) {
  capabilities_.max_mtu = capabilities_.active_mtu = wiring.scheme.payload;
}

bool SprayPort::has_room() const noexcept {
  return wiring_.fabric.port(number_).free_at <= wiring_.wheel.now();
}

size_t SprayPort::transmit(std::span<const transport::TxFrame> frames) noexcept {
  size_t n = 0;
  for (; n < frames.size() && has_room(); ++n) {
    ++wiring_.fabric.counters().sent;
    wiring_.fabric.spray(number_, pack(frames[n]));
  }
  return n;
}

// The scheme's header is that of every packet, the base header included; extension headers of some
// (an address, an acknowledgement's bitmap) are added. Packets without payload are control packets:
// strict priority, never marked or trimmed.
Packet SprayPort::pack(const transport::TxFrame& frame) {
  Packet packet{};
  packet.number = wiring_.frames.take();
  SprayFrame& stored = wiring_.frames[packet.number];
  stored.path = *frame.path;
  stored.length = frame.header_length;
  stored.payload = frame.length() - frame.header_length;
  WEFT_CHECK(stored.length <= SprayFrame::kMost);
  std::memcpy(stored.bytes.data(), frame.head, stored.length);
  packet.tag.event = Event::data;
  packet.tag.control = stored.payload == 0;
  packet.flow = wiring_.pair_of(node_, node_of(frame.path->destination));
  packet.entropy = frame.path->source_port;
  packet.bytes = static_cast<uint16_t>(wiring_.scheme.header + stored.length + stored.payload -
                                       sizeof(wire::SrdBase));
  return packet;
}

size_t SprayPort::receive(std::span<transport::Frame> frames) noexcept {
  const size_t n = std::min(frames.size(), arrived_.size());
  for (size_t i = 0; i < n; ++i) {
    const Packet& packet = arrived_[i];
    SprayFrame& stored = wiring_.frames[packet.number];
    transport::Frame& frame = frames[i];
    frame = {};
    frame.path = &stored.path;
    frame.bytes = stored.bytes.data();
    frame.length = stored.length;
    frame.ecn = packet.tag.marked ? 3 : 2;
    frame.cookie = packet.number;
    if (digests_)
      wire::raise_srd_digest(stored.bytes.data(), stored.length,
                             static_cast<uint8_t>(packet.stamp));
    if (packet.tag.event == Event::trimmed) {
      const bool last_hop = (packet.entropy & fabric::kLastHop) != 0;
      const uint8_t dscp = last_hop ? wire::kTrimmedLastHopDscp : wire::kTrimmedDscp;
      stored.path.traffic_class = static_cast<uint8_t>(dscp << 2);
    } else if (stored.payload != 0) {
      frame.remote = &absent_memory_;
      frame.remote_length = stored.payload;
    }
  }
  arrived_.erase(arrived_.begin(), arrived_.begin() + static_cast<ptrdiff_t>(n));
  return n;
}

void SprayPort::release(std::span<const transport::Frame> frames) noexcept {
  for (const transport::Frame& frame : frames) wiring_.frames.give(frame.cookie);
}

}  // namespace weft::sim::engines
