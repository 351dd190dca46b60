// SPDX-License-Identifier: BSD-3-Clause
// The Ethernet, IP and UDP headers around a packet of the peer: valid, but for the fields that a
// script sets. lib/wire writes the headers; what it never writes is changed afterwards.
#include <cstring>

#include "lib/base/bytes.hpp"
#include "tools/script/packet.hpp"

namespace weft::script {

namespace {

using base::Be16;

constexpr size_t kIpv4Length = 20, kUdpLength = 8;
constexpr uint16_t kDontFragment = 0x4000, kMoreFragments = 0x2000;

wire::Outer outer_of(const Meeting& meeting, const Draft& draft) {
  const OuterDraft& d = draft.outer;
  wire::Outer outer;
  outer.source = meeting.peer.address;
  if (draft.other_source) ++outer.source.bytes[15];
  outer.destination = meeting.end.address;
  outer.mac_source = wire::mac_of(outer.source);
  outer.mac_destination = wire::mac_of(outer.destination);
  outer.vlan = d.vlan;
  outer.vlan_priority = d.priority;
  outer.traffic_class = static_cast<uint8_t>(d.dscp << 2 | d.ecn);
  outer.hop_limit = d.ttl;
  outer.flow_label = d.flow_label;
  outer.source_port = port_of(draft, meeting);
  return outer;
}

Be16& word(Bytes& frame, size_t at) { return *reinterpret_cast<Be16*>(frame.data() + at); }

// Writes the checksum over the IPv4 header of `length` bytes at `ip`.
void sum_ipv4(Bytes& frame, size_t ip, size_t length) {
  word(frame, ip + 10) = uint16_t{0};
  uint32_t sum = 0;
  for (size_t i = 0; i < length; i += 2) sum += word(frame, ip + i);
  while (sum >> 16 != 0) sum = (sum & 0xFFFF) + (sum >> 16);
  word(frame, ip + 10) = static_cast<uint16_t>(~sum);
}

// Flags and options that emit_outer() never writes.
void change_ipv4(Bytes& frame, size_t ip, const OuterDraft& d) {
  word(frame, ip + 6) = static_cast<uint16_t>((d.dont_fragment ? kDontFragment : 0) |
                                              (d.more_fragments ? kMoreFragments : 0));
  const size_t options = size_t{d.option_words} * 4;
  constexpr std::byte kNoOperation{1};
  frame.insert(frame.begin() + static_cast<ptrdiff_t>(ip + kIpv4Length), options, kNoOperation);
  frame[ip] = static_cast<std::byte>(0x45 + d.option_words);
  word(frame, ip + 2) = static_cast<uint16_t>(word(frame, ip + 2) + options);
  sum_ipv4(frame, ip, kIpv4Length + options);
}

}  // namespace

Bytes enclose(const Bytes& transport, const Meeting& meeting, const Draft& draft) {
  const OuterDraft& d = draft.outer;
  wire::Outer outer = outer_of(meeting, draft);
  const auto length = static_cast<uint32_t>(transport.size());
  if (d.checksum != 0) outer.udp_checksum = wire::udp_checksum(outer, transport.data(), length);
  if (d.checksum == 2) outer.udp_checksum ^= 0x0100;
  const size_t headers = wire::outer_length(outer);
  Bytes frame(headers + length);
  wire::emit_outer(frame.data(), outer, length);
  if (length != 0) std::memcpy(frame.data() + headers, transport.data(), length);
  Be16& udp_length = word(frame, headers - kUdpLength + 4);
  udp_length = static_cast<uint16_t>(udp_length + d.udp_longer);
  if (outer.is_ipv4()) change_ipv4(frame, headers - kUdpLength - kIpv4Length, d);
  frame.resize(frame.size() + d.padding);
  return frame;
}

}  // namespace weft::script
