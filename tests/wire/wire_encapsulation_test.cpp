// SPDX-License-Identifier: BSD-3-Clause
// The outer headers: parsing returns what was emitted, and every invalid frame is refused with its
// own reason. Frames are in heap buffers of exactly their size, for AddressSanitizer.
#include <rapidcheck.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/wire/encapsulation.hpp"
#include "tests/support/catch.hpp"

using namespace weft;
using namespace weft::wire;

namespace {

using Bytes = std::vector<uint8_t>;

const std::byte* as_bytes(const Bytes& bytes) {
  return reinterpret_cast<const std::byte*>(bytes.data());
}

Bytes make_frame(Outer outer, const Bytes& transport, bool with_checksum = false) {
  const auto length = static_cast<uint32_t>(transport.size());
  if (with_checksum) outer.udp_checksum = udp_checksum(outer, as_bytes(transport), length);
  Bytes frame(outer_length(outer));
  emit_outer(reinterpret_cast<std::byte*>(frame.data()), outer, length);
  frame.insert(frame.end(), transport.begin(), transport.end());
  return frame;
}

OuterError parse_exact(const Bytes& frame, Outer& outer, Transport& transport) {
  std::unique_ptr<std::byte[]> exact(new std::byte[frame.size()]);
  if (!frame.empty()) std::memcpy(exact.get(), frame.data(), frame.size());
  const OuterError error =
      parse_outer(exact.get(), static_cast<uint32_t>(frame.size()), outer, transport);
  if (error == OuterError::none) {
    const auto offset = static_cast<size_t>(transport.bytes - exact.get());
    if (offset + transport.length > frame.size()) return OuterError::too_short;
    transport.bytes = as_bytes(frame) + offset;  // the exact copy dies here
  }
  return error;
}

OuterError refuse(const Bytes& frame) {
  Outer outer;
  Transport transport;
  return parse_exact(frame, outer, transport);
}

Outer sample(bool ipv6) {
  Outer outer;
  outer.source = ipv6 ? *parse_gid("2001:db8::1") : Gid::from_ipv4(10, 0, 0, 1);
  outer.destination = ipv6 ? *parse_gid("2001:db8::2") : Gid::from_ipv4(10, 0, 0, 2);
  outer.ip_id = ipv6 ? 0 : 77;
  return outer;
}

// Repairs the IPv4 header checksum after a change, so that another check has to find it.
Bytes with_ip_checksum(Bytes frame) {
  uint32_t sum = 0;
  frame[24] = frame[25] = 0;
  for (size_t i = 14; i < 34; i += 2) sum += static_cast<uint32_t>(frame[i] << 8 | frame[i + 1]);
  while (sum >> 16) sum = (sum & 0xFFFF) + (sum >> 16);
  frame[24] = static_cast<uint8_t>(~sum >> 8);
  frame[25] = static_cast<uint8_t>(~sum);
  return frame;
}

const Bytes kTransport(20, 0x5A);

}  // namespace

TEST_CASE("parsing returns the outer headers that were emitted C-HDR-7 C-HDR-8") {
  CHECK(rc::check("parse_outer inverts emit_outer", [] {
    const auto byte = rc::gen::arbitrary<uint8_t>();
    const bool ipv6 = *rc::gen::arbitrary<bool>();
    Outer outer;
    outer.mac_source = *rc::gen::container<MacAddress>(byte);
    outer.mac_destination = *rc::gen::container<MacAddress>(byte);
    outer.vlan = *rc::gen::element<uint16_t>(0, 1, 0x123, 0xFFF);
    outer.vlan_priority = outer.vlan ? *rc::gen::inRange<uint8_t>(0, 8) : uint8_t{0};
    outer.traffic_class = *byte;
    outer.hop_limit = *byte;
    outer.source_port = *rc::gen::arbitrary<uint16_t>();
    outer.destination_port = *rc::gen::arbitrary<uint16_t>();
    if (ipv6) {
      outer.flow_label = *rc::gen::inRange<uint32_t>(0, 1 << 20);
      outer.source.bytes = *rc::gen::container<std::array<uint8_t, 16>>(byte);
      outer.destination.bytes = *rc::gen::container<std::array<uint8_t, 16>>(byte);
      outer.source.bytes[0] = 0x20;  // never IPv4-mapped
      outer.destination.bytes[0] = 0x20;
    } else {
      outer.ip_id = *rc::gen::arbitrary<uint16_t>();
      outer.source = Gid::from_ipv4(*byte, *byte, *byte, *byte);
      outer.destination = Gid::from_ipv4(*byte, *byte, *byte, *byte);
    }
    const auto transport = *rc::gen::container<Bytes>(byte);
    if (*rc::gen::arbitrary<bool>())
      outer.udp_checksum =
          udp_checksum(outer, as_bytes(transport), static_cast<uint32_t>(transport.size()));
    Bytes frame = make_frame(outer, transport);
    frame.resize(frame.size() + *rc::gen::inRange<size_t>(0, 30));  // Ethernet padding
    Outer back;
    Transport inside;
    RC_ASSERT(parse_exact(frame, back, inside) == OuterError::none);
    RC_ASSERT(back == outer);
    RC_ASSERT(inside.length == transport.size());
    RC_ASSERT(std::equal(transport.begin(), transport.end(),
                         reinterpret_cast<const uint8_t*>(inside.bytes)));
  }));
}

TEST_CASE("a frame cut anywhere is refused without reading past its end") {
  for (bool ipv6 : {false, true}) {
    for (uint16_t vlan : {0, 5}) {
      Outer outer = sample(ipv6);
      outer.vlan = vlan;
      const Bytes frame = make_frame(outer, kTransport);
      for (size_t length = 0; length < frame.size(); ++length) {
        const Bytes cut(frame.begin(), frame.begin() + static_cast<ptrdiff_t>(length));
        INFO("cut to " << length);
        CHECK(refuse(cut) == OuterError::too_short);
      }
      CHECK(refuse(frame) == OuterError::none);
    }
  }
}

TEST_CASE("invalid IPv4 headers are refused with their reason C-HDR-8") {
  const Bytes good = make_frame(sample(false), kTransport);
  const auto changed = [&](const std::function<void(Bytes&)>& change) {
    Bytes frame = good;
    change(frame);
    return refuse(with_ip_checksum(frame));
  };
  CHECK(changed([](Bytes&) {}) == OuterError::none);
  CHECK(changed([](Bytes& f) { f[14] = 0x55; }) == OuterError::not_ip);
  CHECK(changed([](Bytes& f) { f[14] = 0x46; }) == OuterError::options);
  CHECK(changed([](Bytes& f) { f[14] = 0x44; }) == OuterError::options);
  CHECK(changed([](Bytes& f) { f[20] = 0x60; }) == OuterError::fragment);  // MF
  CHECK(changed([](Bytes& f) { f[20] = 0xC0; }) == OuterError::fragment);  // reserved flag
  CHECK(changed([](Bytes& f) { f[21] = 1; }) == OuterError::fragment);     // offset
  CHECK(changed([](Bytes& f) { f[20] = 0; }) == OuterError::may_fragment);
  CHECK(changed([](Bytes& f) { f[23] = 6; }) == OuterError::not_udp);
  CHECK(changed([](Bytes& f) { f[17] = 27; }) == OuterError::bad_length);
  CHECK(changed([](Bytes& f) { --f[17]; }) == OuterError::bad_length);  // UDP says one more
  CHECK(changed([](Bytes& f) { ++f[17]; }) == OuterError::too_short);
  CHECK(changed([](Bytes& f) { --f[39]; }) == OuterError::bad_length);  // UDP says one less
  for (size_t at = 14; at < 34; ++at) {
    Bytes frame = good;
    frame[at] ^= 0x01;  // one bit: the checksum, or a check before it
    CHECK(refuse(frame) != OuterError::none);
  }
  Bytes frame = good;
  frame[22] ^= 0x80;  // TTL
  CHECK(refuse(frame) == OuterError::bad_ip_checksum);
}

TEST_CASE("an IPv4 header is checked before the length of its packet, and that against UDP's") {
  const auto with = [](size_t size, uint8_t version, uint8_t total, uint8_t udp_length) {
    Bytes frame = make_frame(sample(false), Bytes(40));
    uint8_t* const ip = frame.data() + 14;
    ip[0] = version;
    ip[2] = 0;
    ip[3] = total;
    ip[24] = 0;
    ip[25] = udp_length;
    ip[10] = ip[11] = 0;
    uint32_t sum = 0;
    for (size_t i = 0; i < 20; i += 2) sum += uint32_t{ip[i]} << 8 | ip[i + 1];
    while (sum >> 16 != 0) sum = (sum & 0xFFFF) + (sum >> 16);
    ip[10] = static_cast<uint8_t>(~sum >> 8);
    ip[11] = static_cast<uint8_t>(~sum);
    frame.resize(14 + size);
    return refuse(frame);
  };
  CHECK(with(20, 0x55, 28, 8) == OuterError::not_ip);
  CHECK(with(20, 0x45, 28, 8) == OuterError::too_short);
  CHECK(with(19, 0x55, 28, 8) == OuterError::too_short);
  CHECK(with(68, 0x45, 27, 7) == OuterError::bad_length);
  CHECK(with(68, 0x45, 20, 0) == OuterError::bad_length);
  CHECK(with(68, 0x45, 68, 48) == OuterError::none);
}

TEST_CASE("invalid IPv6 headers are refused with their reason C-HDR-8") {
  const Bytes good = make_frame(sample(true), kTransport);
  const auto changed = [&](size_t at, uint8_t value) {
    Bytes frame = good;
    frame[at] = value;
    return refuse(frame);
  };
  CHECK(refuse(good) == OuterError::none);
  CHECK(changed(14, 0x40) == OuterError::not_ip);
  CHECK(changed(20, 44) == OuterError::fragment);
  CHECK(changed(20, 0) == OuterError::not_udp);  // hop-by-hop options
  CHECK(changed(19, 7) == OuterError::bad_length);
  CHECK(changed(19, 27) == OuterError::bad_length);
  CHECK(changed(19, 29) == OuterError::too_short);
  Outer outer = sample(true);
  outer.source = Gid::from_ipv4(10, 0, 0, 1);  // the destination makes it IPv6
  CHECK(refuse(make_frame(outer, kTransport)) == OuterError::bad_address);
}

TEST_CASE("other EtherTypes and double tags are refused") {
  Bytes frame = make_frame(sample(false), kTransport);
  frame[12] = 0x08, frame[13] = 0x06;
  CHECK(refuse(frame) == OuterError::not_ip);
  Outer outer = sample(false);
  outer.vlan = 7;
  frame = make_frame(outer, kTransport);
  frame[16] = 0x81, frame[17] = 0x00;
  CHECK(refuse(frame) == OuterError::not_ip);
}

TEST_CASE("a UDP checksum is checked if there is one, and may be absent C-HDR-7") {
  for (bool ipv6 : {false, true}) {
    const Bytes without = make_frame(sample(ipv6), kTransport);
    const Bytes with = make_frame(sample(ipv6), kTransport, true);
    CHECK(refuse(without) == OuterError::none);
    CHECK(refuse(with) == OuterError::none);
    CHECK(with != without);
    for (size_t at : {with.size() - 1, with.size() - 20, with.size() - 21}) {
      Bytes frame = with;
      frame[at] ^= 0x04;
      CHECK(refuse(frame) == OuterError::bad_udp_checksum);
    }
  }
}

TEST_CASE("every reason has a unique name") {
  std::vector<std::string> names;
  for (size_t i = 0; i < kOuterErrorEnd; ++i) names.emplace_back(name(static_cast<OuterError>(i)));
  std::sort(names.begin(), names.end());
  CHECK(std::unique(names.begin(), names.end()) == names.end());
  CHECK(name(OuterError::bad_udp_checksum) == "bad_udp_checksum");
}
