// SPDX-License-Identifier: BSD-3-Clause
// ARP and Neighbour Discovery as plain structs laid over the bytes. See neighbour.hpp.
#include "lib/wire/neighbour.hpp"

#include <algorithm>
#include <cstring>

#include "lib/base/bytes.hpp"

namespace weft::wire {
namespace {

using base::Be16;
using base::Be32;

constexpr uint16_t kEtherArp = 0x0806;
constexpr uint16_t kEtherVlan = 0x8100;
constexpr uint16_t kEtherIpv6 = 0x86DD;
constexpr uint8_t kIcmpv6 = 58;
constexpr uint8_t kSolicitation = 135;
constexpr uint8_t kAdvertisement = 136;
constexpr uint8_t kSourceLink = 1, kTargetLink = 2;  // options
constexpr uint32_t kSolicited = 0x40000000, kOverride = 0x20000000;

struct Arp {
  Be16 hardware;  // 1 = Ethernet
  Be16 protocol;  // 0x0800
  uint8_t hardware_length;
  uint8_t protocol_length;
  Be16 operation;  // 1 = request, 2 = reply
  MacAddress sender_mac;
  uint8_t sender[4];
  MacAddress target_mac;
  uint8_t target[4];
};
static_assert(sizeof(Arp) == 28 && alignof(Arp) == 1);

struct Discovery {
  // IPv6
  Be32 version_class_label;
  Be16 payload_length;
  uint8_t next_header;
  uint8_t hop_limit;
  uint8_t source[16];
  uint8_t destination[16];
  // ICMPv6
  uint8_t type;
  uint8_t code;
  Be16 checksum;
  Be32 flags;
  uint8_t target[16];
  uint8_t option;
  uint8_t option_length;  // of 8 bytes
  MacAddress mac;
};
static_assert(sizeof(Discovery) == 72 && alignof(Discovery) == 1);
constexpr uint16_t kIcmpLength = 32;

// RFC 4443 2.3: over a pseudo-header and the message.
uint16_t icmp_checksum(const Discovery& d) noexcept {
  uint32_t sum = kIcmpLength + kIcmpv6;
  const auto add = [&sum](const uint8_t* bytes, size_t size) {
    for (size_t i = 0; i < size; i += 2) sum += static_cast<uint32_t>(bytes[i] << 8 | bytes[i + 1]);
  };
  add(d.source, 32);
  add(&d.type, kIcmpLength);
  while (sum >> 16 != 0) sum = (sum & 0xFFFF) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

uint8_t* put_link(std::byte* at, const MacAddress& to, const NeighbourMessage& message,
                  uint16_t type) noexcept {
  auto* out = reinterpret_cast<uint8_t*>(at);
  const auto put16 = [&out](uint16_t value) {
    *out++ = static_cast<uint8_t>(value >> 8);
    *out++ = static_cast<uint8_t>(value);
  };
  out = std::copy(to.begin(), to.end(), out);
  out = std::copy(message.sender_mac.begin(), message.sender_mac.end(), out);
  if (message.vlan != 0) {
    put16(kEtherVlan);
    put16(message.vlan & 0x0FFF);
  }
  put16(type);
  return out;
}

Gid ipv4_of(const uint8_t* a) noexcept { return Gid::from_ipv4(a[0], a[1], a[2], a[3]); }
Gid ipv6_of(const uint8_t* a) noexcept {
  Gid gid;
  std::memcpy(gid.bytes.data(), a, 16);
  return gid;
}

bool parse_arp(const std::byte* at, uint32_t length, NeighbourMessage& message) noexcept {
  Arp arp;
  if (length < sizeof arp) return false;
  std::memcpy(&arp, at, sizeof arp);
  const uint16_t operation = arp.operation;
  if (arp.hardware != 1 || arp.protocol != 0x0800 || arp.hardware_length != 6 ||
      arp.protocol_length != 4 || operation < 1 || operation > 2)
    return false;
  message.is_question = operation == 1;
  message.sender_mac = arp.sender_mac;
  message.sender = ipv4_of(arp.sender);
  message.target = ipv4_of(arp.target);
  return arp.sender[0] != 0 && arp.sender[0] < 224;
}

bool parse_discovery(const std::byte* at, uint32_t length, NeighbourMessage& message) noexcept {
  Discovery d;
  if (length < sizeof d) return false;
  std::memcpy(&d, at, sizeof d);
  const bool question = d.type == kSolicitation;
  if (d.next_header != kIcmpv6 || d.hop_limit != 255 || d.payload_length != kIcmpLength ||
      (!question && d.type != kAdvertisement) || d.code != 0 || d.option_length != 1 ||
      d.option != (question ? kSourceLink : kTargetLink))
    return false;
  if (d.source[0] == 0 || d.source[0] == 0xFF || icmp_checksum(d) != 0) return false;
  message.is_question = question;
  message.sender_mac = d.mac;
  message.sender = ipv6_of(question ? d.source : d.target);
  message.target = ipv6_of(question ? d.target : d.destination);
  message.overrides = question || (d.flags & kOverride) != 0;
  return true;
}

uint32_t emit_arp(uint8_t* at, const NeighbourMessage& message, const MacAddress& to) noexcept {
  Arp arp{};
  arp.hardware = 1;
  arp.protocol = 0x0800;
  arp.hardware_length = 6;
  arp.protocol_length = 4;
  arp.operation = message.is_question ? 1 : 2;
  arp.sender_mac = message.sender_mac;
  if (!message.is_question) arp.target_mac = to;
  std::memcpy(arp.sender, message.sender.bytes.data() + 12, 4);
  std::memcpy(arp.target, message.target.bytes.data() + 12, 4);
  std::memcpy(at, &arp, sizeof arp);
  return sizeof arp;
}

uint32_t emit_discovery(uint8_t* at, const NeighbourMessage& message, bool to_all) noexcept {
  Discovery d{};
  d.version_class_label = 6u << 28;
  d.payload_length = kIcmpLength;
  d.next_header = kIcmpv6;
  d.hop_limit = 255;
  std::memcpy(d.source, message.sender.bytes.data(), 16);
  if (message.is_question && to_all) {  // ff02::1:ffXX:XXXX
    constexpr uint8_t kGroup[13] = {0xFF, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xFF};
    std::memcpy(d.destination, kGroup, sizeof kGroup);
    std::memcpy(d.destination + 13, message.target.bytes.data() + 13, 3);
  } else {
    std::memcpy(d.destination, message.target.bytes.data(), 16);
  }
  d.type = message.is_question ? kSolicitation : kAdvertisement;
  if (!message.is_question)
    d.flags =
        (message.target.is_multicast() ? 0 : kSolicited) | (message.overrides ? kOverride : 0);
  std::memcpy(d.target, (message.is_question ? message.target : message.sender).bytes.data(), 16);
  d.option = message.is_question ? kSourceLink : kTargetLink;
  d.option_length = 1;
  d.mac = message.sender_mac;
  d.checksum = icmp_checksum(d);
  std::memcpy(at, &d, sizeof d);
  return sizeof d;
}

}  // namespace

bool parse_neighbour(const std::byte* frame, uint32_t length, NeighbourMessage& message) noexcept {
  constexpr uint32_t kLink = 14;
  if (length < kLink + 4) return false;
  const auto type_at = [frame](uint32_t offset) {
    Be16 type;
    std::memcpy(&type, frame + offset, sizeof type);
    return static_cast<uint16_t>(type);
  };
  uint32_t offset = kLink;
  uint16_t type = type_at(kLink - 2);
  message = {};
  if (type == kEtherVlan) {
    message.vlan = type_at(kLink) & 0x0FFF;
    type = type_at(kLink + 2);
    offset += 4;
  }
  bool good = false;
  if (type == kEtherArp) good = parse_arp(frame + offset, length - offset, message);
  if (type == kEtherIpv6) good = parse_discovery(frame + offset, length - offset, message);
  return good && (message.sender_mac[0] & 1) == 0;  // a group has no place of its own
}

uint32_t emit_neighbour(std::byte* at, const NeighbourMessage& message,
                        const MacAddress& to) noexcept {
  const bool ipv4 = message.target.is_ipv4();
  const bool to_all = message.is_question && to == MacAddress{};
  MacAddress destination = to;
  if (to_all) {
    const auto& t = message.target.bytes;
    destination = ipv4 ? MacAddress{0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}
                       : MacAddress{0x33, 0x33, 0xFF, t[13], t[14], t[15]};
  }
  uint8_t* const body = put_link(at, destination, message, ipv4 ? kEtherArp : kEtherIpv6);
  const auto link = static_cast<uint32_t>(body - reinterpret_cast<uint8_t*>(at));
  return link + (ipv4 ? emit_arp(body, message, to) : emit_discovery(body, message, to_all));
}

}  // namespace weft::wire
