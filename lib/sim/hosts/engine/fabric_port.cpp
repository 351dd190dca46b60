// SPDX-License-Identifier: BSD-3-Clause
// See fabric_port.hpp.
#include "lib/sim/hosts/engine/fabric_port.hpp"

#include <algorithm>
#include <cstring>

#include "lib/base/check.hpp"
#include "lib/wire/headers.hpp"

namespace weft::sim::engines {
namespace {

using fabric::Event;

constexpr uint32_t kMostHeld = 64;  // data frames held at a paused NIC

uint32_t prefix_of(const transport::Path& path) noexcept {
  return path.destination_port == wire::kIntUdpPort ? uint32_t{sizeof(wire::IntBlock)} : 0;
}

}  // namespace

FabricPort::FabricPort(Wiring& wiring, uint32_t node, uint32_t number)
    : NicPort(node), wiring_(wiring), number_(number) {
  capabilities_.lossless = wiring.scheme.fabric.pfc;
  capabilities_.telemetry = wiring.scheme.fabric.telemetry.mode != fabric::Telemetry::none;
}

bool FabricPort::records() const noexcept {
  return wiring_.scheme.fabric.telemetry.mode == fabric::Telemetry::records;
}

bool FabricPort::has_room() const noexcept {
  const fabric::Port& port = wiring_.fabric.port(number_);
  return port.free_at <= wiring_.wheel.now() && port.data.size() < kMostHeld &&
         (port.paused || port.data.empty());
}

bool FabricPort::has_held() const noexcept {
  const fabric::Port& port = wiring_.fabric.port(number_);
  return !port.paused && !port.data.empty();
}

bool FabricPort::send_held() {
  fabric::Port& port = wiring_.fabric.port(number_);
  if (!has_held() || port.free_at > wiring_.wheel.now()) return false;
  wiring_.fabric.transmit(number_, port.data.pop(wiring_.pool));
  return true;
}

size_t FabricPort::transmit(std::span<const transport::TxFrame> frames) noexcept {
  size_t n = 0;
  for (; n < frames.size() && has_room(); ++n) {
    const fabric::Packet packet = pack(frames[n]);
    fabric::Port& port = wiring_.fabric.port(number_);
    ++wiring_.fabric.counters().sent;
    const bool ignores_pause = packet.tag.event == Event::nak && wiring_.scheme.acks_ignore_pause;
    if (port.paused && !ignores_pause)
      port.data.push(packet, wiring_.pool);
    else
      wiring_.fabric.transmit(number_, packet);
  }
  return n;
}

// The size of a packet is the scheme's of data or of acknowledgements, plus headers that only some
// packets have (the RETH of the first).
fabric::Packet FabricPort::pack(const transport::TxFrame& frame) {
  const uint32_t prefix = prefix_of(*frame.path);
  const auto& bth = *reinterpret_cast<const wire::Bth*>(frame.head + prefix);
  const Wiring::End end =
      wiring_.ends.at(Wiring::key(node_of(frame.path->destination), QpNum{bth.dest_qpn}));
  const flow::Scheme& scheme = wiring_.scheme;
  fabric::Packet packet{};
  packet.flow = end.flow;
  packet.number = wiring_.frames.take();
  StoredFrame& stored = wiring_.frames[packet.number];
  stored.length = frame.header_length;
  stored.payload = frame.length() - frame.header_length;
  WEFT_CHECK(stored.length <= StoredFrame::kMost);
  std::memcpy(stored.bytes.data(), frame.head, stored.length);
  if (end.receiver) {
    packet.tag.event = Event::data;
    packet.bytes = static_cast<uint16_t>(stored.payload + scheme.data_overhead + stored.length -
                                         prefix - sizeof(wire::Bth));
    if (records())
      packet.stamp = wiring_.telemetry.take(static_cast<uint32_t>(wiring_.wheel.now() / 1000));
  } else {
    packet.tag.event = Event::nak;  // an answer without a telemetry block of the fabric's own
    packet.bytes = static_cast<uint16_t>(scheme.ack_bytes);
    packet.tag.control = scheme.ack_control;
  }
  return packet;
}

bool FabricPort::arrive(const fabric::Packet& packet) {
  const bool data = packet.tag.event == Event::data;
  WEFT_DCHECK(packet.flow < wiring_.connections.size());
  StoredFrame& frame = wiring_.frames[packet.number];
  const bool stamped = data && capabilities_.telemetry;
  if (stamped) put_telemetry(packet, frame);
  const Connection& connection = wiring_.connections[packet.flow];
  if (connection.sender == nullptr) {
    wiring_.frames.give(packet.number);
    return false;
  }
  arrived_.push_back(packet);
  return true;
}

// Writes the telemetry of the switches in the wire format (lib/wire/INT.md).
void FabricPort::put_telemetry(const fabric::Packet& packet, StoredFrame& frame) {
  auto& block = *reinterpret_cast<wire::IntBlock*>(frame.bytes.data());
  if (!records()) {
    block.digest = static_cast<uint8_t>(packet.stamp);
    return;
  }
  const fabric::TelemetryBlock& records = wiring_.telemetry[packet.stamp];
  block.hops = static_cast<uint8_t>(records.count);
  for (uint32_t i = 0; i < records.count; ++i) {
    const congestion::IntHop& hop = records.hops[i];
    block.records[i] = {hop.rate_mbps, hop.time_ns, hop.sent_bytes, hop.queue_bytes};
  }
  wiring_.telemetry.give(packet.stamp);
}

size_t FabricPort::receive(std::span<transport::Frame> frames) noexcept {
  const size_t n = std::min(frames.size(), arrived_.size());
  for (size_t i = 0; i < n; ++i) {
    const fabric::Packet& packet = arrived_[i];
    const StoredFrame& stored = wiring_.frames[packet.number];
    const Connection& connection = wiring_.connections[packet.flow];
    const bool data = packet.tag.event == Event::data;
    transport::Frame& frame = frames[i];
    frame = {};
    frame.path = data ? &connection.sender->path : &connection.receiver->path;
    frame.bytes = stored.bytes.data();
    frame.length = stored.length;
    frame.ecn = packet.tag.marked ? 3 : 2;
    frame.cookie = packet.number;
    if (stored.payload == 0) continue;
    frame.remote = &absent_memory_;
    frame.remote_length = stored.payload;
  }
  arrived_.erase(arrived_.begin(), arrived_.begin() + static_cast<ptrdiff_t>(n));
  return n;
}

void FabricPort::release(std::span<const transport::Frame> frames) noexcept {
  for (const transport::Frame& frame : frames) wiring_.frames.give(frame.cookie);
}

}  // namespace weft::sim::engines
