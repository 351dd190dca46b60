// SPDX-License-Identifier: BSD-3-Clause
// See framing.hpp.
#include "providers/port/ethernet/framing.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include "lib/transport/sum_copy.hpp"
#include "lib/wire/opcode.hpp"
#include "lib/wire/srd_headers.hpp"

namespace weft::port::ethernet {
Neighbours::Self self_of(const Interface& interface) noexcept {
  Neighbours::Self self;
  self.mac = interface.mac;
  self.address = interface.address;
  self.prefix = interface.prefix;
  self.gateway = interface.gateway;
  return self;
}

uint32_t transport_headers(uint16_t udp_port) noexcept {
  constexpr uint32_t kUdp = 8, kRoce = 12 + 4 + 16 + 4;  // BTH, XRCETH, RETH, ImmDt
  const uint32_t headers = udp_port == wire::kSrdUdpPort ? wire::kSrdLargestHeader : kRoce;
  return kUdp + headers + wire::kIcrcLength;
}

transport::Capabilities capabilities_of(const Gid& address, uint32_t mtu, uint16_t udp_port) {
  transport::Capabilities c;
  const uint32_t headers = (address.is_ipv4() ? 20 : 40) + transport_headers(udp_port);
  c.active_mtu = std::clamp(std::bit_floor(std::max(mtu, headers + 1) - headers), 256u, 4096u);
  c.integrity_bits = 32;
  c.gather = true;
  c.ecn = true;
  c.packet_overhead = 512;
  return c;
}

transport::Path path_of(const wire::Outer& outer) noexcept {
  return {.source = outer.source,
          .destination = outer.destination,
          .source_port = outer.source_port,
          .destination_port = outer.destination_port,
          .traffic_class = outer.traffic_class,
          .hop_limit = outer.hop_limit,
          .vlan = outer.vlan};
}

void make_frame(const wire::Outer& outer, const wire::Transport& transport, transport::Path& path,
                transport::Frame& frame) noexcept {
  ::new (&path) transport::Path(path_of(outer));
  ::new (&frame) transport::Frame{.path = &path,
                                  .bytes = transport.bytes,
                                  .length = transport.length,
                                  .ip_id = outer.ip_id,
                                  .ecn = static_cast<uint8_t>(outer.traffic_class & 3)};
}

wire::Outer outer_of(const transport::TxFrame& frame, const Neighbours::Self& self,
                     const wire::MacAddress& to) noexcept {
  const transport::Path& path = *frame.path;
  wire::Outer outer;
  outer.mac_source = self.mac;
  outer.mac_destination = to;
  outer.vlan = self.vlan;
  outer.traffic_class = static_cast<uint8_t>((path.traffic_class & 0xFC) | frame.ecn);
  outer.hop_limit = path.hop_limit;
  outer.ip_id = frame.ip_id;
  outer.source = path.source;
  outer.destination = path.destination;
  outer.source_port = path.source_port;
  outer.destination_port = path.destination_port;
  return outer;
}

namespace {

// The tail; the ICRC is `crc`, the raw CRC-32 of what comes before, and the pad, if it is left to
// the port.
void write_tail(std::byte* at, const transport::TxFrame& frame, uint32_t crc) noexcept {
  std::memcpy(at, frame.tail, frame.tail_length);
  if (!frame.signs) return;
  const uint32_t pad = frame.tail_length - uint32_t{wire::kIcrcLength};
  const uint32_t icrc = wire::icrc_finish(wire::crc_continue(crc, at, pad));
  std::memcpy(at + pad, &icrc, sizeof icrc);
}

}  // namespace

std::byte* write_transport(std::byte* at, const transport::TxFrame& frame) noexcept {
  if (frame.head_length != 0) std::memcpy(at, frame.head, frame.head_length);
  at += frame.head_length;
  uint32_t crc = frame.crc;
  for (uint32_t i = 0; i < frame.span_count; ++i) {
    const auto [data, length] = frame.spans[i];
    if (frame.signs ? !transport::sum_copy(crc, at, data, length)
                    : !memory::copy_out(at, data, length))
      return nullptr;
    at += length;
  }
  write_tail(at, frame, crc);
  return at + frame.tail_length;
}

uint32_t write_frame(std::byte* begin, const transport::TxFrame& frame,
                     const Neighbours::Self& self, const wire::MacAddress& to) noexcept {
  std::byte* const bth = begin + wire::emit_outer(begin, outer_of(frame, self, to), frame.length());
  const std::byte* const end = write_transport(bth, frame);
  return end == nullptr ? 0 : static_cast<uint32_t>(end - begin);
}

}  // namespace weft::port::ethernet
