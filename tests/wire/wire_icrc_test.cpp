// SPDX-License-Identifier: BSD-3-Clause
// Verification of the ICRC: which corruption it detects, and which when the IPv4 identification is
// unknown. Comparison with another implementation: wire_golden_test.cpp.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "lib/base/random.hpp"
#include "lib/wire/crc_portable.hpp"
#include "lib/wire/emit.hpp"
#include "lib/wire/encapsulation.hpp"
#include "lib/wire/icrc.hpp"
#include "lib/wire/opcode.hpp"
#include "tests/support/catch.hpp"

using namespace weft;
using namespace weft::wire;
using base::Random;

namespace {

uint64_t test_seed() {
  const char* given = std::getenv("WEFT_SEED");
  const uint64_t seed = given ? std::strtoull(given, nullptr, 0) : 20240901;
  std::printf("seed %llu; replay with WEFT_SEED=%llu\n", static_cast<unsigned long long>(seed),
              static_cast<unsigned long long>(seed));
  return seed;
}

// An IP packet with its outer fields, damaged and checked as a port and an engine would.
struct Signed {
  Outer outer;
  std::vector<std::byte> frame;  // Ethernet to ICRC
  uint32_t ip = 14;              // where the IP header begins
  uint32_t bth = 0;              // where the BTH begins

  std::byte* transport() { return frame.data() + bth; }
  uint32_t transport_length() const { return static_cast<uint32_t>(frame.size()) - bth; }
  OuterHeader header() const {
    return {&outer.source, &outer.destination, outer.source_port, outer.destination_port,
            outer.ip_id};
  }
};

Gid random_gid(Random& random, bool ipv6) {
  const auto byte = [&] { return static_cast<uint8_t>(random.next()); };
  if (!ipv6) return Gid::from_ipv4(byte(), byte(), byte(), byte());
  Gid gid;
  for (uint8_t& b : gid.bytes) b = byte();
  gid.bytes[0] = 0x20;
  return gid;
}

void sign(Signed& s) {
  const uint32_t length = s.transport_length();
  const uint32_t sum = icrc(s.header(), s.transport(), length);
  for (uint32_t i = 0; i < 4; ++i)
    s.transport()[length - 4 + i] = static_cast<std::byte>(sum >> 8 * i);
}

Signed make_signed(Random& random, uint8_t opcode, uint32_t payload, bool ipv6) {
  Signed s;
  s.outer.source = random_gid(random, ipv6);
  s.outer.destination = random_gid(random, ipv6);
  s.outer.source_port = static_cast<uint16_t>(0xC000 | random.below(0x4000));
  s.outer.ip_id = ipv6 ? 0 : static_cast<uint16_t>(random.next());
  s.outer.traffic_class = static_cast<uint8_t>(random.next());
  const OpcodeInfo& info = opcode_info(opcode);
  if (!info.payload) payload = 0;
  const uint32_t pad = (0u - payload) & 3;
  const uint32_t length = info.header_length + payload + pad + 4;
  s.frame.resize(kMaxOuterLength);
  s.bth = emit_outer(s.frame.data(), s.outer, length);
  s.frame.resize(s.bth + length);
  for (uint32_t i = 0; i < length; ++i) s.transport()[i] = static_cast<std::byte>(random.next());
  BthFields bth;
  bth.opcode = opcode;
  bth.pad = static_cast<uint8_t>(pad);
  bth.dest = QpNum{static_cast<uint32_t>(1 + random.below(0xFFFFFF))};
  bth.psn = Psn{static_cast<uint32_t>(random.below(0x1000000))};
  emit_bth(s.transport(), bth);
  sign(s);
  return s;
}

void repair_ip_checksum(std::byte* ip) {
  uint32_t sum = 0;
  ip[10] = ip[11] = std::byte{0};
  for (int i = 0; i < 20; i += 2)
    sum += static_cast<uint32_t>(ip[i]) << 8 | static_cast<uint32_t>(ip[i + 1]);
  while (sum >> 16) sum = (sum & 0xFFFF) + (sum >> 16);
  ip[10] = static_cast<std::byte>(~sum >> 8);
  ip[11] = static_cast<std::byte>(~sum);
}

// True if the damaged frame would reach the engine's state. The checksums of IPv4 and UDP are
// repaired first, as a router's or an attacker's would be: the ICRC alone has to find the damage.
bool accepted(std::vector<std::byte> frame, const Signed& s) {
  if (s.outer.is_ipv4()) repair_ip_checksum(frame.data() + s.ip);
  frame[s.bth - 2] = frame[s.bth - 1] = std::byte{0};
  Outer outer;
  Transport t;
  if (parse_outer(frame.data(), static_cast<uint32_t>(frame.size()), outer, t) != OuterError::none)
    return false;
  return icrc_verify(
      {&outer.source, &outer.destination, outer.source_port, outer.destination_port, outer.ip_id},
      t.bytes, t.length);
}

// The bits, counted from the IP header on, whose flip must not matter.
std::set<uint32_t> masked_bits(bool ipv6) {
  std::set<uint32_t> bits;
  const auto add = [&](uint32_t byte, uint32_t first, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) bits.insert(byte * 8 + first + i);
  };
  if (ipv6) {
    add(0, 4, 28);  // traffic class, flow label
    add(7, 0, 8);   // hop limit
  } else {
    add(1, 0, 8);    // type of service
    add(8, 0, 8);    // time to live
    add(10, 0, 16);  // header checksum
  }
  const uint32_t udp = ipv6 ? 40 : 20;
  add(udp + 6, 0, 16);     // UDP checksum
  add(udp + 8 + 4, 0, 8);  // BTH: F, B, reserved
  return bits;
}

}  // namespace

TEST_CASE("the CRC is CRC-32, and eight masked bytes leave the known register C-ICRC-11") {
  const char* digits = "123456789";
  CHECK(~crc_continue(~0u, reinterpret_cast<const std::byte*>(digits), 9) == 0xCBF43926);
  const std::vector<std::byte> ones(8, std::byte{0xFF});
  CHECK(crc_continue(~0u, ones.data(), 8) == 0xDEBB20E3);
}

TEST_CASE("every flipped bit is found except exactly the masked ones C-ICRC-14 threat:A12") {
  Random random(test_seed());
  constexpr uint8_t kOpcodes[] = {
      kRcSendOnly, kRcWriteFirst, kRcReadResponseOnly, kRcAcknowledge, kRcFetchAdd, kCnp, 0x64};
  uint64_t variants = 0;
  for (int packet = 0; packet < 1000; ++packet) {
    const bool ipv6 = packet % 2;
    const uint8_t opcode = kOpcodes[packet % std::size(kOpcodes)];
    const auto payload = static_cast<uint32_t>(random.below(4097));
    Signed s = make_signed(random, opcode, payload, ipv6);
    std::vector<std::byte> frame = s.frame;
    REQUIRE(accepted(frame, s));
    std::set<uint32_t> undetected;
    const auto bits = static_cast<uint32_t>(frame.size() - s.ip) * 8;
    // Every bit of the headers through the whole port; behind the BTH by the ICRC alone, in place.
    const uint32_t header_bits = (s.bth + 12 - s.ip) * 8;
    for (uint32_t bit = 0; bit < bits; ++bit) {
      std::byte& byte = bit < header_bits ? frame[s.ip + bit / 8] : s.frame[s.ip + bit / 8];
      const auto flip = static_cast<std::byte>(0x80 >> bit % 8);
      byte ^= flip;
      const bool passed = bit < header_bits
                              ? accepted(frame, s)
                              : icrc_verify(s.header(), s.transport(), s.transport_length());
      byte ^= flip;
      if (passed) undetected.insert(bit);
      ++variants;
    }
    if (undetected == masked_bits(ipv6)) continue;
    std::string bits_found;
    for (uint32_t bit : undetected) bits_found += " " + std::to_string(bit);
    FAIL("packet " << packet << " opcode " << +opcode << " undetected:" << bits_found);
  }
  CHECK(variants > 9'000'000);
}

TEST_CASE("masked fields of IPv4 and IPv6 may change, the others may not C-ICRC-12 C-ICRC-13") {
  CHECK(masked_bits(false).size() == 8 + 8 + 16 + 16 + 8);
  CHECK(masked_bits(true).size() == 28 + 8 + 16 + 8);
  Random random(5);
  for (bool ipv6 : {false, true}) {
    Signed s = make_signed(random, kRcSendOnly, 100, ipv6);
    const uint32_t length = s.transport_length();
    CHECK(icrc_verify(s.header(), s.transport(), length));
    OuterHeader other = s.header();
    other.source_port ^= 1;
    CHECK_FALSE(icrc_verify(other, s.transport(), length));
    other = s.header();
    other.destination_port ^= 1;
    CHECK_FALSE(icrc_verify(other, s.transport(), length));
    other = s.header();
    std::swap(other.source, other.destination);
    CHECK_FALSE(icrc_verify(other, s.transport(), length));
    other = s.header();
    other.ip_id ^= 0x100;
    CHECK(icrc_verify(other, s.transport(), length) == ipv6);  // IPv6 has no identification
  }
}

TEST_CASE("a CNP, an ACK and a padded 4 KiB payload verify C-ICRC-16") {
  Random random(6);
  for (bool ipv6 : {false, true}) {
    for (uint32_t payload : {0u, 1u, 4093u, 4096u}) {
      for (uint8_t opcode : {uint8_t{kCnp}, uint8_t{kRcAcknowledge}, uint8_t{kRcSendOnly}}) {
        Signed s = make_signed(random, opcode, payload, ipv6);
        CHECK(icrc_verify(s.header(), s.transport(), s.transport_length()));
      }
    }
  }
}

TEST_CASE("lengths that cannot be a packet are refused, not read C-HDR-4") {
  Random random(7);
  Signed s = make_signed(random, kRcSendOnly, 0, false);
  OuterHeader header = s.header();
  for (uint32_t length : {0u, 4u, 15u, 65'508u, 0xFFFFFFFFu}) {
    CHECK_FALSE(icrc_verify(header, s.transport(), length));
    CHECK_FALSE(icrc_verify_unknown_id(header, s.transport(), length));
  }
}

TEST_CASE("an unknown identification is found, whatever it is and whatever the guess") {
  Random random(test_seed());
  for (int round = 0; round < 20'000; ++round) {
    const auto payload = static_cast<uint32_t>(random.below(round % 100 ? 64 : 9000));
    Signed s = make_signed(random, kRcSendOnly, payload, false);
    OuterHeader header = s.header();
    header.ip_id = static_cast<uint16_t>(random.next());
    REQUIRE(icrc_verify_unknown_id(header, s.transport(), s.transport_length()));
    REQUIRE(header.ip_id == s.outer.ip_id);
  }
  Signed s = make_signed(random, kRcSendOnly, 16, false);
  for (uint32_t id = 0; id < 65536; id += 251) {
    s.outer.ip_id = static_cast<uint16_t>(id);
    sign(s);
    OuterHeader header = s.header();
    header.ip_id = 0;
    REQUIRE(icrc_verify_unknown_id(header, s.transport(), s.transport_length()));
    REQUIRE(header.ip_id == id);
  }
}

TEST_CASE("with an unknown identification sixteen bits of check remain") {
  Random random(test_seed());
  Signed s = make_signed(random, kRcSendOnly, 40, false);
  constexpr int kTries = 1 << 20;  // 16 are expected to slip through
  int passed = 0;
  for (int i = 0; i < kTries; ++i) {
    std::byte* const at = s.transport() + 12 + random.below(s.transport_length() - 16);
    std::byte saved[4];
    std::memcpy(saved, at, 4);
    const auto damage = static_cast<uint32_t>(random.next() | 1);
    for (int k = 0; k < 4; ++k) at[k] ^= static_cast<std::byte>(damage >> 8 * k);
    OuterHeader header = s.header();
    passed += icrc_verify_unknown_id(header, s.transport(), s.transport_length());
    std::memcpy(at, saved, 4);
  }
  INFO(passed << " of " << kTries);
  CHECK(passed >= 2);
  CHECK(passed <= 45);
}

TEST_CASE("with an unknown identification IPv6 keeps all 32 bits") {
  Random random(9);
  Signed s = make_signed(random, kRcSendOnly, 40, true);
  OuterHeader header = s.header();
  CHECK(icrc_verify_unknown_id(header, s.transport(), s.transport_length()));
  for (int i = 0; i < 100'000; ++i) {
    s.transport()[20] ^= static_cast<std::byte>(1 + random.below(255));
    s.transport()[21 + random.below(20)] ^= static_cast<std::byte>(random.next());
    REQUIRE_FALSE(icrc_verify_unknown_id(header, s.transport(), s.transport_length()));
  }
}
