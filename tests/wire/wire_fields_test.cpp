// SPDX-License-Identifier: BSD-3-Clause
// Fields and sums against values that are computed here from the specifications, not by the code
// that is tested: what is wrong in the same way on both sides of a round trip is seen here only.
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "lib/wire/emit.hpp"
#include "lib/wire/encapsulation.hpp"
#include "lib/wire/forge.hpp"
#include "lib/wire/icrc.hpp"
#include "lib/wire/int_block.hpp"
#include "lib/wire/parse.hpp"
#include "lib/wire/srd_parse.hpp"
#include "tests/support/catch.hpp"

namespace weft::wire {
namespace {

using FieldBytes = std::vector<uint8_t>;

void append16(FieldBytes& to, uint32_t value) {
  to.push_back(static_cast<uint8_t>(value >> 8));
  to.push_back(static_cast<uint8_t>(value));
}

// RFC 768 and RFC 8200 8.1: the ones' complement of the sum of pseudo header, header and data.
uint16_t rfc_udp_checksum(const Outer& outer, const FieldBytes& data) {
  const size_t skip = outer.is_ipv4() ? 12 : 0;
  FieldBytes all;
  for (const Gid* gid : {&outer.source, &outer.destination})
    for (size_t i = skip; i < 16; ++i) all.push_back(static_cast<uint8_t>(gid->bytes[i]));
  const auto length = static_cast<uint32_t>(data.size() + 8);
  if (!outer.is_ipv4()) append16(all, 0);
  append16(all, length);
  append16(all, 17);  // UDP
  append16(all, outer.source_port);
  append16(all, outer.destination_port);
  append16(all, length);
  append16(all, 0);
  all.insert(all.end(), data.begin(), data.end());
  if (all.size() % 2 != 0) all.push_back(0);
  uint32_t sum = 0;
  for (size_t i = 0; i < all.size(); i += 2) sum += uint32_t{all[i]} << 8 | all[i + 1];
  while (sum >> 16 != 0) sum = (sum & 0xFFFF) + (sum >> 16);
  const auto checksum = static_cast<uint16_t>(~sum);
  return checksum != 0 ? checksum : 0xFFFF;
}

uint8_t at(const std::byte* bytes, size_t i) { return static_cast<uint8_t>(bytes[i]); }

}  // namespace

TEST_CASE("a UDP checksum is that of RFC 768 and RFC 8200, at every length C-HDR-7") {
  for (const bool ipv6 : {false, true}) {
    Outer outer;
    outer.source = ipv6 ? *parse_gid("2001:db8::a:1") : Gid::from_ipv4(10, 1, 2, 3);
    outer.destination = ipv6 ? *parse_gid("2001:db8::b:2") : Gid::from_ipv4(192, 168, 200, 7);
    outer.source_port = 0xC123;
    for (size_t length = 0; length < 70; ++length) {
      INFO("IPv6 " << ipv6 << ", " << length << " bytes");
      FieldBytes data(length);
      for (size_t i = 0; i < length; ++i) data[i] = static_cast<uint8_t>(i * 151 + 200);
      CHECK(udp_checksum(outer, reinterpret_cast<const std::byte*>(data.data()),
                         static_cast<uint32_t>(length)) == rfc_udp_checksum(outer, data));
    }
  }
}

TEST_CASE("the network header of a datagram is right-aligned in 40 bytes C-OPS-84") {
  Outer outer;
  outer.source = Gid::from_ipv4(10, 0, 0, 1);
  outer.destination = Gid::from_ipv4(10, 0, 0, 2);
  std::byte header[40 + 8];
  std::memset(header, 0xEE, sizeof header);
  emit_network_header(header, outer, 100);
  for (size_t i = 0; i < 20; ++i) CHECK(at(header, i) == 0);
  CHECK(at(header, 20) == 0x45);
  CHECK((at(header, 22) << 8 | at(header, 23)) == 20 + 8 + 100);
  CHECK(at(header, 29) == 17);
  for (size_t i = 40; i < sizeof header; ++i) CHECK(at(header, i) == 0xEE);
  outer.source = *parse_gid("2001:db8::1");
  outer.destination = *parse_gid("2001:db8::2");
  std::memset(header, 0xEE, sizeof header);
  emit_network_header(header, outer, 100);
  CHECK(at(header, 0) >> 4 == 6);
  CHECK((at(header, 4) << 8 | at(header, 5)) == 8 + 100);
  CHECK(at(header, 6) == 17);
  for (size_t i = 40; i < sizeof header; ++i) CHECK(at(header, i) == 0xEE);
}

TEST_CASE("addresses that begin as IPv4-mapped ones are IPv6 in the ICRC C-ICRC-11") {
  // ::1, and a GID with the mark of a mapped one behind other bytes: their ICRC covers 40 bytes of
  // header, so it differs from that of the same packet between mapped addresses.
  Gid marked = Gid::from_ipv4(10, 0, 0, 1);
  marked.bytes[0] = static_cast<decltype(marked.bytes)::value_type>(0x20);
  const Gid mapped = Gid::from_ipv4(10, 0, 0, 1), loopback = *parse_gid("::1");
  std::vector<std::byte> packet(64);
  emit_bth(packet.data(), {.opcode = kRcSendOnly, .dest = QpNum{3}, .psn = Psn{4}});
  const auto sum = [&packet](const Gid& source, uint16_t ip_id) {
    const OuterHeader outer{&source, &source, 0xC000, 4791, ip_id};
    return icrc(outer, packet.data(), static_cast<uint32_t>(packet.size()));
  };
  CHECK(sum(mapped, 1) != sum(mapped, 2));      // IPv4: the identification counts
  CHECK(sum(loopback, 1) == sum(loopback, 2));  // IPv6 has none
  CHECK(sum(marked, 1) == sum(marked, 2));
  const OuterHeader mixed[] = {{&mapped, &loopback, 0xC000, 4791, 1},
                               {&mapped, &loopback, 0xC000, 4791, 2}};
  const auto length = static_cast<uint32_t>(packet.size());
  CHECK(icrc(mixed[0], packet.data(), length) == icrc(mixed[1], packet.data(), length));
}

TEST_CASE("headers that are not set are zero, but the P_Key C-HDR-1") {
  const Bth bth;
  const auto* const bytes = reinterpret_cast<const std::byte*>(&bth);
  for (size_t i = 0; i < sizeof bth; ++i) CHECK(at(bytes, i) == (i == 2 || i == 3 ? 0xFF : 0));
  const Aeth aeth;
  for (size_t i = 0; i < sizeof aeth; ++i)
    CHECK(at(reinterpret_cast<const std::byte*>(&aeth), i) == 0);
  SrdPacket p;
  p.opcode = SrdOpcode::fill;
  std::vector<std::byte> srd(srd_emit_length(p));
  srd_emit(srd.data(), p, 0);
  for (size_t i = 2; i < srd.size(); ++i) CHECK(at(srd.data(), i) == 0);
}

TEST_CASE("FLUSH names placement and selectivity in its bits, and nothing else") {
  for (uint32_t selectivity = 0; selectivity < 8; ++selectivity)
    for (uint32_t placement = 0; placement < 32; ++placement) {
      std::byte bytes[4];
      CHECK(emit_feth(bytes, placement, selectivity) == bytes + 4);
      CHECK((at(bytes, 0) | at(bytes, 1) | at(bytes, 2)) == 0);
      CHECK(at(bytes, 3) == ((selectivity & 3) << 4 | (placement & 15)));
      const auto& feth = *reinterpret_cast<const Feth*>(bytes);
      CHECK(feth.placement() == (placement & 15));
      CHECK(feth.selectivity() == (selectivity & 3));
    }
}

TEST_CASE("a forged frame of every opcode parses, with its fields, and has a valid ICRC") {
  const Gid source = Gid::from_ipv4(10, 0, 0, 1), destination = Gid::from_ipv4(10, 0, 0, 2);
  const OuterHeader outer{&source, &destination, 0xC000, 4791, 7};
  const std::vector<std::byte> payload(13, std::byte{0x5A});
  for (uint32_t opcode = 0; opcode < 256; ++opcode) {
    const OpcodeInfo& info = opcode_info(static_cast<uint8_t>(opcode));
    if (!info.known()) continue;
    INFO(info.name);
    Forgery f;
    f.bth = {.opcode = static_cast<uint8_t>(opcode), .dest = QpNum{0x123}, .psn = Psn{0x456}};
    f.address = 0x1122334455667788;
    f.rkey = RKey{0x99AABBCC};
    f.length = 0xDDEE;
    f.imm = 0x01020304;
    f.qkey = 0x05060708;
    f.source_qp = QpNum{0x0A0B0C};
    f.srq = 0x0D0E0F;
    if (info.payload) f.payload = payload;
    const std::vector<std::byte> frame = forge(outer, f);
    const auto length = static_cast<uint32_t>(frame.size());
    CHECK(icrc_verify(outer, frame.data(), length));
    CHECK(length == info.header_length + (info.payload ? 13u + 3u : 0u) + 4u);
    Packet packet;
    REQUIRE(parse(frame.data(), length, kIcrcLength, 0, packet) == ParseError::none);
    CHECK(packet.dest_qpn == QpNum{0x123});
    CHECK(packet.psn == Psn{0x456});
    CHECK(packet.payload_length == f.payload.size());
    if (info.reth) CHECK(packet.reth().rkey == f.rkey.value);
    if (info.reth) CHECK(packet.reth().length == f.length);
    if (info.atomic_eth) CHECK(packet.atomic_eth().address == f.address);
    if (info.deth) CHECK(packet.deth().qkey == f.qkey);
    if (info.deth) CHECK(packet.deth().source_qpn == f.source_qp.value);
    if (info.imm || info.ieth) CHECK(packet.imm_or_key() == f.imm);
    if (info.xrceth) CHECK(packet.xrceth().srq == f.srq);
  }
}

TEST_CASE("SRD: payload outside of the frame counts, and its frame has none of its own") {
  SrdPacket p;
  p.opcode = SrdOpcode::write;
  p.dest = QpNum{1};
  const uint32_t headers = srd_emit_length(p);
  std::vector<std::byte> bytes(headers + 4);
  srd_emit(bytes.data(), p, 0);
  SrdPacket q;
  REQUIRE(srd_parse(bytes.data(), headers, 0, 1000, q) == SrdError::none);
  CHECK(q.payload_length == 1000);
  CHECK(q.length == 1000);
  CHECK(srd_parse(bytes.data(), headers + 4, 0, 1000, q) == SrdError::bad_payload);
  REQUIRE(srd_parse(bytes.data(), headers + 4, 0, 0, q) == SrdError::none);
  CHECK(q.payload_length == 4);
  // One that may have no payload has none outside either.
  p.opcode = SrdOpcode::fill;
  srd_emit(bytes.data(), p, 0);
  CHECK(srd_parse(bytes.data(), srd_emit_length(p), 0, 1, q) == SrdError::bad_payload);
}

TEST_CASE("SRD: digest and operands are read where they are") {
  SrdPacket p;
  p.opcode = SrdOpcode::compare_swap;
  std::vector<std::byte> bytes(srd_emit_length(p) + operand_bytes(p.opcode));
  std::byte* const operands = srd_emit(bytes.data(), p, 0);
  for (size_t i = 0; i < sizeof(SrdOperands); ++i) operands[i] = static_cast<std::byte>(i + 1);
  bytes[4] = std::byte{0x5C};  // SRD.md: the digest
  SrdPacket q;
  REQUIRE(srd_parse(bytes.data(), static_cast<uint32_t>(bytes.size()), 0, 0, q) == SrdError::none);
  CHECK(q.digest == 0x5C);
  CHECK(q.operands == operands);
  CHECK(std::memcmp(&q.two_operands(), operands, sizeof(SrdOperands)) == 0);
}

TEST_CASE("SRD: which opcodes carry payload, and that version 1 is refused") {
  for (int opcode = 0; opcode < 256; ++opcode) {
    INFO(opcode);
    const auto code = static_cast<SrdOpcode>(opcode);
    const bool carries = opcode == 1 || opcode == 2 || opcode == 4 || opcode == 8;
    CHECK(may_carry_payload(code) == carries);
    if (opcode == 0 || opcode > 11) continue;
    SrdPacket p, q;
    p.opcode = code;
    p.flags = srd_flag::kFragment;
    p.length = p.message = 0x01020304;
    std::vector<std::byte> bytes(srd_emit_length(p) + operand_bytes(code));
    srd_emit(bytes.data(), p, 0);
    const auto length = static_cast<uint32_t>(bytes.size());
    CHECK(srd_parse(bytes.data(), length, 0, 0, q) == SrdError::none);
    bytes[1] = std::byte{0x10};
    CHECK(srd_parse(bytes.data(), length, 0, 0, q) == SrdError::bad_version);
  }
}

TEST_CASE("a packet begins and ends a message as its name says C-OPS-69") {
  for (int opcode = 0; opcode < 256; ++opcode) {
    const OpcodeInfo& info = opcode_info(static_cast<uint8_t>(opcode));
    if (!info.known()) continue;
    INFO(info.name);
    const auto named = [&info](std::string_view place) {
      return info.name.find(place) != std::string_view::npos;
    };
    CHECK(info.starts_message() == !(named(" Middle") || named(" Last")));
    CHECK(info.ends_message() == !(named(" Middle") || named(" First")));
    CHECK(info.effect() == (named("FLUSH") || named("ATOMIC WRITE")));
    CHECK(info.response() == (named(" Response") || named("Acknowledge")));
  }
}

// SRD.md: base 32, introduction 24, message 4, fragment 8, remote 12, Q_Key 4, operands 16, a
// value 8, hello 32.
TEST_CASE("SRD: the headers of each opcode are as long as SRD.md says, and no other exists") {
  for (int opcode = 0; opcode < 256; ++opcode) {
    INFO(opcode);
    const auto code = static_cast<SrdOpcode>(opcode);
    const bool remote = opcode == 2 || opcode == 3 || opcode == 5 || opcode == 6 || opcode == 8;
    CHECK(has_remote(code) == remote);
    const uint32_t operands = opcode == 5 || opcode == 6 ? 16 : opcode == 7 ? 8 : 0;
    CHECK(operand_bytes(code) == operands);
    std::byte bytes[128] = {};
    bytes[0] = static_cast<std::byte>(opcode);
    bytes[1] = std::byte{kSrdVersion << 4};
    bytes[2] = std::byte{srd_flag::kFragment};
    uint32_t length = 0;
    if (opcode >= 1 && opcode <= 11)
      length =
          32 + (opcode == 10 ? 0 : 4) + 8 + (remote ? 12 : 0) + (opcode == 1 ? 4 : 0) + operands;
    if (opcode >= 17 && opcode <= 20) length = 32;
    if (opcode == 21) length = 32 + 24;
    if (opcode == 22 || opcode == 23) length = 32 + 32;
    if (opcode == 16) length = 32 + sizeof(SrdAck);
    if (opcode == 21) bytes[32 + 20] = std::byte{1};  // version of the list
    SrdPacket q;
    if (length == 0) {
      CHECK(srd_parse(bytes, sizeof bytes, 0, 0, q) == SrdError::bad_opcode);
      continue;
    }
    CHECK(srd_parse(bytes, length, 0, 0, q) == SrdError::none);
    CHECK(q.payload == bytes + length);
    CHECK(srd_parse(bytes, length - 1, 0, 0, q) == SrdError::too_short);
    bytes[1] |= std::byte{1};  // with an introduction
    const bool introduced = opcode <= 11;
    if (opcode == 16) continue;
    CHECK((srd_parse(bytes, length + 24, 0, 0, q) == SrdError::none) == introduced);
    if (introduced) CHECK(srd_parse(bytes, length + 23, 0, 0, q) == SrdError::too_short);
  }
}

TEST_CASE("SRD: the words of an acknowledgement are behind its header, and its end behind them") {
  std::byte bytes[32 + sizeof(SrdAck) + 8 * (kSrdMostWords + 1)] = {};
  bytes[0] = std::byte{16};
  bytes[1] = std::byte{kSrdVersion << 4};
  auto& ack = *reinterpret_cast<SrdAck*>(bytes + 32);
  for (uint32_t words = 0; words <= kSrdMostWords; ++words) {
    ack.words = static_cast<uint8_t>(words);
    const uint32_t length = 32 + sizeof(SrdAck) + 8 * words;
    SrdPacket q;
    REQUIRE(srd_parse(bytes, length, 0, 0, q) == SrdError::none);
    CHECK(q.ack == &ack);
    CHECK(q.payload == bytes + length);
    CHECK(q.payload_length == 0);
    CHECK(srd_parse(bytes, length - 1, 0, 0, q) == SrdError::too_short);
    CHECK(srd_parse(bytes, length + 1, 0, 0, q) == SrdError::bad_payload);
  }
  ack.words = kSrdMostWords + 1;
  SrdPacket q;
  CHECK(srd_parse(bytes, sizeof bytes, 0, 0, q) == SrdError::bad_payload);
}

TEST_CASE("each field of a BTH is in its bits C-HDR-1") {
  const auto only = [](auto set, uint32_t first, uint32_t second, uint32_t third) {
    BthFields f{.pkey = 0, .mig_req = false};
    set(f);
    std::byte bytes[12];
    emit_bth(bytes, f);
    const uint32_t wanted[] = {first, second, third};
    for (size_t i = 0; i < 12; ++i)
      CHECK(at(bytes, i) == static_cast<uint8_t>(wanted[i / 4] >> 8 * (3 - i % 4)));
  };
  only([](BthFields&) {}, 0, 0, 0);
  only([](BthFields& f) { f.opcode = 0xA5; }, 0xA5000000, 0, 0);
  only([](BthFields& f) { f.solicited = true; }, 0x00800000, 0, 0);
  only([](BthFields& f) { f.mig_req = true; }, 0x00400000, 0, 0);
  only([](BthFields& f) { f.pad = 3; }, 0x00300000, 0, 0);
  only([](BthFields& f) { f.pkey = 0x8001; }, 0x00008001, 0, 0);
  only([](BthFields& f) { f.becn = true; }, 0, 0x40000000, 0);
  only([](BthFields& f) { f.dest = QpNum{0x123456}; }, 0, 0x00123456, 0);
  only([](BthFields& f) { f.ack_request = true; }, 0, 0, 0x80000000);
  only([](BthFields& f) { f.psn = Psn{0x654321}; }, 0, 0, 0x00654321);
}

}  // namespace weft::wire
