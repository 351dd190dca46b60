// SPDX-License-Identifier: BSD-3-Clause
// See encapsulation.hpp. Headers are structs overlaid on the bytes, after their length was checked.
#include "lib/wire/encapsulation.hpp"

#include <cstring>
#include <new>

#include "lib/base/bytes.hpp"
#include "lib/base/check.hpp"

namespace weft::wire {
namespace {

using base::Be16;
using base::Be32;

constexpr uint16_t kEtherVlan = 0x8100;
constexpr uint16_t kEtherIpv4 = 0x0800;
constexpr uint16_t kEtherIpv6 = 0x86DD;
constexpr uint8_t kUdp = 17;
constexpr uint8_t kIpv6Fragment = 44;
constexpr uint16_t kDontFragment = 0x4000;
constexpr uint16_t kFragmentMask = 0xBFFF;  // reserved flag, MF and the offset: all but DF

struct Ethernet {
  MacAddress destination;
  MacAddress source;
  Be16 type;
};
static_assert(sizeof(Ethernet) == 14 && alignof(Ethernet) == 1);

struct VlanTag {
  Be16 control;  // priority:3 DEI:1 id:12
  Be16 type;
};

struct Ipv4 {
  uint8_t version_length;
  uint8_t tos;
  Be16 total_length;
  Be16 id;
  Be16 fragment;
  uint8_t ttl;
  uint8_t protocol;
  Be16 checksum;
  uint8_t source[4];
  uint8_t destination[4];
};
static_assert(sizeof(Ipv4) == 20 && alignof(Ipv4) == 1);

struct Ipv6 {
  Be32 version_class_label;  // 4, 8, 20
  Be16 payload_length;
  uint8_t next_header;
  uint8_t hop_limit;
  uint8_t source[16];
  uint8_t destination[16];
};
static_assert(sizeof(Ipv6) == 40 && alignof(Ipv6) == 1);

struct Udp {
  Be16 source_port;
  Be16 destination_port;
  Be16 length;
  Be16 checksum;
};
static_assert(sizeof(Udp) == 8 && alignof(Udp) == 1);

// The ones' complement sum of RFC 1071, unfolded. An odd last byte counts as a high byte.
uint64_t sum_words(uint64_t sum, const void* data, size_t size) noexcept {
  const auto* bytes = static_cast<const uint8_t*>(data);
  for (; size >= 2; bytes += 2, size -= 2) sum += static_cast<uint32_t>(bytes[0] << 8 | bytes[1]);
  if (size != 0) sum += static_cast<uint32_t>(bytes[0] << 8);
  return sum;
}

uint16_t fold(uint64_t sum) noexcept {
  while (sum >> 16 != 0) sum = (sum & 0xFFFF) + (sum >> 16);
  return static_cast<uint16_t>(sum);
}

// Ethernet and VLAN: where the IP header is, or nullptr.
struct Below {
  const std::byte* ip = nullptr;
  uint32_t length = 0;
  uint16_t type = 0;
};

bool parse_ethernet(const std::byte* frame, uint32_t length, Outer& outer, Below& below) noexcept {
  if (length < sizeof(Ethernet)) return false;
  const auto& ethernet = *reinterpret_cast<const Ethernet*>(frame);
  outer.mac_source = ethernet.source;
  outer.mac_destination = ethernet.destination;
  below = {frame + sizeof(Ethernet), length - static_cast<uint32_t>(sizeof(Ethernet)),
           ethernet.type};
  outer.vlan = 0;
  outer.vlan_priority = 0;
  if (below.type != kEtherVlan) return true;
  if (below.length < sizeof(VlanTag)) return false;
  const auto& tag = *reinterpret_cast<const VlanTag*>(below.ip);
  outer.vlan = tag.control & 0xFFF;  // 0 is a priority tag only //= roce:C-HDR-119
  outer.vlan_priority = static_cast<uint8_t>(tag.control >> 13);
  below = {below.ip + sizeof(VlanTag), below.length - static_cast<uint32_t>(sizeof(VlanTag)),
           tag.type};
  return true;
}

// Both IP parsers return the bytes from the UDP header to the end of the IP packet in `udp`.
OuterError parse_ipv4(const Below& below, Outer& outer, Transport& udp) noexcept {
  if (below.length < sizeof(Ipv4)) return OuterError::too_short;
  const auto& ip = *reinterpret_cast<const Ipv4*>(below.ip);
  if (ip.version_length >> 4 != 4) return OuterError::not_ip;
  if (ip.version_length != 0x45) return OuterError::options;  //= roce:C-HDR-114
  if (fold(sum_words(0, &ip, sizeof ip)) != 0xFFFF) return OuterError::bad_ip_checksum;
  //= roce:C-HDR-8
  if (ip.fragment & kFragmentMask) return OuterError::fragment;
  if (!(ip.fragment & kDontFragment)) return OuterError::may_fragment;
  if (ip.protocol != kUdp) return OuterError::not_udp;
  if (ip.total_length < sizeof(Ipv4) + sizeof(Udp)) return OuterError::bad_length;
  if (ip.total_length > below.length) return OuterError::too_short;
  outer.traffic_class = ip.tos;
  outer.hop_limit = ip.ttl;  // of any value //= roce:C-HDR-115
  outer.ip_id = ip.id;
  outer.flow_label = 0;
  outer.source = Gid::from_ipv4(ip.source[0], ip.source[1], ip.source[2], ip.source[3]);
  outer.destination =
      Gid::from_ipv4(ip.destination[0], ip.destination[1], ip.destination[2], ip.destination[3]);
  udp = {below.ip + sizeof(Ipv4), ip.total_length - static_cast<uint32_t>(sizeof(Ipv4))};
  return OuterError::none;
}

OuterError parse_ipv6(const Below& below, Outer& outer, Transport& udp) noexcept {
  if (below.length < sizeof(Ipv6)) return OuterError::too_short;
  const auto& ip = *reinterpret_cast<const Ipv6*>(below.ip);
  const uint32_t first = ip.version_class_label;
  if (first >> 28 != 6) return OuterError::not_ip;
  if (ip.next_header == kIpv6Fragment) return OuterError::fragment;
  if (ip.next_header != kUdp) return OuterError::not_udp;  //= roce:C-HDR-114
  if (ip.payload_length < sizeof(Udp)) return OuterError::bad_length;
  if (ip.payload_length > below.length - sizeof(Ipv6)) return OuterError::too_short;
  outer.traffic_class = static_cast<uint8_t>(first >> 20);
  outer.flow_label = first & 0xFFFFF;
  outer.hop_limit = ip.hop_limit;
  outer.ip_id = 0;
  std::memcpy(outer.source.bytes.data(), ip.source, 16);
  std::memcpy(outer.destination.bytes.data(), ip.destination, 16);
  if (outer.source.is_ipv4() || outer.destination.is_ipv4()) return OuterError::bad_address;
  udp = {below.ip + sizeof(Ipv6), ip.payload_length};
  return OuterError::none;
}

Ipv4 ipv4_header(const Outer& outer, uint16_t udp_length) noexcept {
  Ipv4 ip{0x45,        outer.traffic_class, static_cast<uint16_t>(udp_length + sizeof(Ipv4)),
          outer.ip_id, kDontFragment,       outer.hop_limit,
          kUdp,        uint16_t{0},         {},
          {}};
  std::memcpy(ip.source, outer.source.bytes.data() + 12, 4);
  std::memcpy(ip.destination, outer.destination.bytes.data() + 12, 4);
  // From the values: loading the bytes just written in other sizes would stall.
  uint64_t sum = (0x4500u | outer.traffic_class) + udp_length + uint32_t{sizeof(Ipv4)} +
                 outer.ip_id + kDontFragment + (uint32_t{outer.hop_limit} << 8 | kUdp);
  sum = sum_words(sum, outer.source.bytes.data() + 12, 4);
  sum = sum_words(sum, outer.destination.bytes.data() + 12, 4);
  ip.checksum = static_cast<uint16_t>(~fold(sum));
  return ip;
}

Ipv6 ipv6_header(const Outer& outer, uint16_t udp_length) noexcept {
  Ipv6 ip{
      6u << 28 | static_cast<uint32_t>(outer.traffic_class) << 20 | (outer.flow_label & 0xFFFFF),
      udp_length,
      kUdp,
      outer.hop_limit,
      {},
      {}};
  std::memcpy(ip.source, outer.source.bytes.data(), 16);
  std::memcpy(ip.destination, outer.destination.bytes.data(), 16);
  return ip;
}

// The sum over the fields and bytes that a UDP checksum covers, with a zero checksum field.
uint64_t udp_sum(const Outer& outer, const std::byte* transport, uint32_t length) noexcept {
  const uint32_t udp_length = length + static_cast<uint32_t>(sizeof(Udp));
  const size_t skip = outer.is_ipv4() ? 12 : 0;
  uint64_t sum = sum_words(0, outer.source.bytes.data() + skip, 16 - skip);
  sum = sum_words(sum, outer.destination.bytes.data() + skip, 16 - skip);
  sum += kUdp + uint64_t{udp_length} + outer.source_port + outer.destination_port + udp_length;
  return sum_words(sum, transport, length);
}

}  // namespace

std::string_view name(OuterError error) noexcept {
  static constexpr std::string_view kNames[kOuterErrorEnd] = {
      "none",     "too_short",    "not_ip",  "options",    "bad_ip_checksum", "bad_address",
      "fragment", "may_fragment", "not_udp", "bad_length", "bad_udp_checksum"};
  return kNames[static_cast<size_t>(error)];
}

uint32_t outer_length(const Outer& outer) noexcept {
  return static_cast<uint32_t>(sizeof(Ethernet) +
                               (outer.vlan | outer.vlan_priority ? sizeof(VlanTag) : 0) +
                               (outer.is_ipv4() ? sizeof(Ipv4) : sizeof(Ipv6)) + sizeof(Udp));
}

uint32_t emit_outer(std::byte* at, const Outer& outer, uint32_t transport_length) noexcept {
  std::byte* const start = at;
  const bool ipv4 = outer.is_ipv4();
  const uint16_t type = ipv4 ? kEtherIpv4 : kEtherIpv6;
  const bool tagged = outer.vlan | outer.vlan_priority;
  // Constructed in place: copying a struct from the stack would wait for its stores.
  ::new (at) Ethernet{outer.mac_destination, outer.mac_source, tagged ? kEtherVlan : type};
  at += sizeof(Ethernet);
  if (tagged) {
    ::new (at)
        VlanTag{static_cast<uint16_t>(outer.vlan_priority << 13 | (outer.vlan & 0xFFF)), type};
    at += sizeof(VlanTag);
  }
  WEFT_DCHECK(transport_length <= kMaxTransportLength);
  const auto udp_length = static_cast<uint16_t>(transport_length + sizeof(Udp));
  if (ipv4) {
    ::new (at) Ipv4(ipv4_header(outer, udp_length));
    at += sizeof(Ipv4);
  } else {
    ::new (at) Ipv6(ipv6_header(outer, udp_length));
    at += sizeof(Ipv6);
  }
  ::new (at) Udp{outer.source_port, outer.destination_port, udp_length, outer.udp_checksum};
  return static_cast<uint32_t>(at + sizeof(Udp) - start);
}

void emit_network_header(std::byte* at, const Outer& outer, uint32_t transport_length) noexcept {
  const auto udp_length = static_cast<uint16_t>(transport_length + sizeof(Udp));
  if (!outer.is_ipv4()) {
    const Ipv6 ip = ipv6_header(outer, udp_length);
    std::memcpy(at, &ip, sizeof ip);
    return;
  }
  const Ipv4 ip = ipv4_header(outer, udp_length);
  std::memset(at, 0, sizeof(Ipv6) - sizeof ip);
  std::memcpy(at + sizeof(Ipv6) - sizeof ip, &ip, sizeof ip);
}

uint16_t udp_checksum(const Outer& outer, const std::byte* transport, uint32_t length) noexcept {
  const auto sum = static_cast<uint16_t>(~fold(udp_sum(outer, transport, length)));
  return sum != 0 ? sum : 0xFFFF;
}

OuterError parse_outer(const std::byte* frame, uint32_t length, Outer& outer, Transport& transport,
                       bool sums) noexcept {
  Below below;
  if (!parse_ethernet(frame, length, outer, below)) return OuterError::too_short;
  Transport packet;
  OuterError error = OuterError::not_ip;
  if (below.type == kEtherIpv4) error = parse_ipv4(below, outer, packet);
  if (below.type == kEtherIpv6) error = parse_ipv6(below, outer, packet);
  if (error != OuterError::none) return error;
  const auto& udp = *reinterpret_cast<const Udp*>(packet.bytes);
  if (udp.length != packet.length) return OuterError::bad_length;  //= roce:C-HDR-116
  outer.source_port = udp.source_port;
  outer.destination_port = udp.destination_port;
  outer.udp_checksum = udp.checksum;
  transport = {packet.bytes + sizeof(Udp), packet.length - static_cast<uint32_t>(sizeof(Udp))};
  //= roce:C-HDR-7
  if (!sums || outer.udp_checksum == 0) return OuterError::none;
  const uint64_t sum = udp_sum(outer, transport.bytes, transport.length) + outer.udp_checksum;
  return fold(sum) == 0xFFFF ? OuterError::none : OuterError::bad_udp_checksum;
}

}  // namespace weft::wire
