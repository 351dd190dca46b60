// SPDX-License-Identifier: BSD-3-Clause
// Frames from packets.
#include "lib/sim/run/capture.hpp"

#include <algorithm>
#include <array>

#include "lib/base/check.hpp"
#include "lib/wire/emit.hpp"
#include "lib/wire/encapsulation.hpp"
#include "lib/wire/icrc.hpp"
#include "lib/wire/opcode.hpp"

namespace weft::sim::flow {
namespace {

using fabric::Event;
using fabric::Packet;

constexpr uint8_t kAckSyndrome = 0x1F;       // no credits counted
constexpr uint8_t kSequenceSyndrome = 0x60;  // NAK, PSN sequence error
constexpr uint32_t kFirstQpn = 0x100;

// 10.x.y.z of a node.
Gid address_of(uint32_t node) {
  return Gid::from_ipv4(10, static_cast<uint8_t>(node >> 16), static_cast<uint8_t>(node >> 8),
                        static_cast<uint8_t>(node));
}

// Two queue pairs per flow.
QpNum sender_of(uint32_t flow) { return QpNum{(kFirstQpn + 2 * flow) & 0xFFFFFF}; }
QpNum receiver_of(uint32_t flow) { return QpNum{(kFirstQpn + 2 * flow + 1) & 0xFFFFFF}; }

}  // namespace

Result<Capture> Capture::open(const std::string& file, const Scheme& scheme,
                              std::span<const FlowSpec> specs, const fabric::RouteTable& routes,
                              std::span<const uint32_t> flows) {
  if (scheme.sprayed() || scheme.engines)
    return Error{Code::not_supported, "a capture shows flows of one path of light hosts, not " +
                                          (scheme.engines ? "engines" : scheme.name)};
  Result<wire::PcapWriter> writer = wire::PcapWriter::create(file);
  if (!writer) return writer.error();
  std::vector<bool> chosen(specs.size(), flows.empty());
  for (const uint32_t flow : flows) chosen[flow] = true;
  return Capture(std::move(*writer), scheme, specs, routes, std::move(chosen));
}

Capture::Capture(wire::PcapWriter writer, const Scheme& scheme, std::span<const FlowSpec> specs,
                 const fabric::RouteTable& routes, std::vector<bool> chosen)
    : writer_(std::move(writer)),
      scheme_(&scheme),
      specs_(specs),
      routes_(&routes),
      chosen_(std::move(chosen)),
      frame_(scheme.payload + 64) {}

void Capture::arrived(const Packet& packet) {
  if (!chosen_[packet.flow]) return;
  if (packet.tag.event == Event::data) return write(packet, make_data(packet));
  write(packet, make_answer(packet));
  if (!packet.tag.cnp) return;
  wire::emit_bth(frame_.data(),
                 {.opcode = wire::kCnp, .dest = sender_of(packet.flow), .becn = true});
  std::fill_n(frame_.begin() + wire::kBthLength, 16, std::byte{});
  write(packet, wire::kBthLength + 16);
}

// The length without ICRC.
uint32_t Capture::make_data(const Packet& packet) {
  const FlowSpec& spec = specs_[packet.flow];
  const bool first = packet.number == 0;
  const uint64_t begin = uint64_t{packet.number} * scheme_->payload;
  WEFT_DCHECK(begin < spec.bytes);
  const bool last = begin + scheme_->payload >= spec.bytes;
  const auto payload =
      static_cast<uint32_t>(std::min<uint64_t>(scheme_->payload, spec.bytes - begin));
  const uint32_t pad = (4 - payload % 4) % 4;
  const uint8_t opcode = first ? (last ? wire::kRcWriteOnly : wire::kRcWriteFirst)
                               : (last ? wire::kRcWriteLast : wire::kRcWriteMiddle);
  std::byte* at = wire::emit_bth(frame_.data(), {.opcode = opcode,
                                                 .ack_request = true,
                                                 .pad = static_cast<uint8_t>(pad),
                                                 .dest = receiver_of(packet.flow),
                                                 .psn = Psn{packet.number}});
  if (first) at = wire::emit_reth(at, 0, RKey{packet.flow}, static_cast<uint32_t>(spec.bytes));
  std::fill_n(at, payload + pad, std::byte{});
  return static_cast<uint32_t>(at - frame_.data()) + payload + pad;
}

uint32_t Capture::make_answer(const Packet& packet) {
  const bool nak = packet.tag.event == Event::nak;
  const FlowSpec& spec = specs_[packet.flow];
  const bool done = uint64_t{packet.number} * scheme_->payload >= spec.bytes;
  std::byte* const at = wire::emit_bth(frame_.data(), {.opcode = wire::kRcAcknowledge,
                                                       .dest = sender_of(packet.flow),
                                                       .psn = Psn{packet.number - (nak ? 0 : 1)}});
  wire::emit_aeth(at, nak ? kSequenceSyndrome : kAckSyndrome, done);
  return wire::kBthLength + 4;
}

void Capture::write(const Packet& packet, uint32_t length) {
  const FlowSpec& spec = specs_[packet.flow];
  const bool forward = packet.tag.event == Event::data;
  wire::Outer outer;
  outer.source = address_of(forward ? spec.src : spec.dst);
  outer.destination = address_of(forward ? spec.dst : spec.src);
  outer.mac_source = wire::mac_of(outer.source);
  outer.mac_destination = wire::mac_of(outer.destination);
  // DSCP 26 as RoCE networks have it by habit, ECT(0) or congestion experienced.
  const uint8_t ecn = !forward ? 0 : (packet.tag.marked ? 3 : 2);
  outer.traffic_class = static_cast<uint8_t>(26 << 2 | ecn);
  outer.source_port = routes_->tuple(packet.flow).src_port;
  const uint32_t whole = length + static_cast<uint32_t>(wire::kIcrcLength);
  WEFT_DCHECK(whole <= frame_.size());
  const wire::OuterHeader covered{&outer.source, &outer.destination, outer.source_port,
                                  outer.destination_port, outer.ip_id};
  const uint32_t sum = wire::icrc(covered, frame_.data(), whole);
  for (uint32_t i = 0; i < wire::kIcrcLength; ++i)
    frame_[length + i] = static_cast<std::byte>(sum >> 8 * i);
  std::array<std::byte, wire::kMaxOuterLength> head;
  const uint32_t head_length = wire::emit_outer(head.data(), outer, whole);
  const std::span<const std::byte> pieces[] = {{head.data(), head_length}, {frame_.data(), whole}};
  (void)writer_.write(packet.at / 1000, pieces);
}

}  // namespace weft::sim::flow
