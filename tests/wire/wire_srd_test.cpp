// SPDX-License-Identifier: BSD-3-Clause
// The SRD header: emit and parse agree for every opcode and flag, the bytes are where SRD.md says,
// and no prefix or mutation of a packet is read past its end or taken for something it is not.
#include <cstring>
#include <memory>
#include <vector>

#include "lib/base/random.hpp"
#include "lib/wire/srd_parse.hpp"
#include "tests/support/catch.hpp"

using namespace weft;
using namespace weft::wire;

namespace {

SrdPacket srd_sample(SrdOpcode opcode, uint8_t flags) {
  SrdPacket p;
  p.opcode = opcode;
  p.flags = flags;
  p.path = 0x21;
  p.detail = 0x32;
  p.path_sequence = 0x4354;
  p.dest = QpNum{0x0A0B0C};
  p.source = QpNum{0x1A1B1C};
  p.epoch = 0x51525354;
  p.incarnation = 0x6162636465666768;
  p.message = 0x71727374;
  p.sequence = 0x818283848586;
  p.length = 0x0000F000;
  p.offset = 0x00001000;
  p.address = 0x9192939495969798;
  p.rkey = 0xA1A2A3A4;
  p.immediate = 0xB1B2B3B4B5B6B7B8;
  p.requested_credit = 0xC1C2C3C4;
  p.order = 0xD1D2D3D4;
  p.queue_key = 0xE1E2E3E4;
  static const SrdHello hello{0xF1F2, 0xF3F4, 0xF5F6, 0xF7F8};
  p.hello = &hello;
  return p;
}

std::vector<std::byte> bytes_of(const SrdPacket& p, uint32_t payload) {
  const uint8_t pad = (0u - payload) & 3;
  if (srd_emit_length(p) == 0) {  // there is no such opcode: a bare base header
    std::vector<std::byte> bare(sizeof(SrdBase), std::byte{0});
    bare[0] = static_cast<std::byte>(p.opcode);
    bare[1] = std::byte{kSrdVersion << 4};
    return bare;
  }
  const uint32_t operands = operand_bytes(p.opcode);
  const uint32_t extra = p.opcode == SrdOpcode::acknowledge ? sizeof(SrdAck) : operands;
  std::vector<std::byte> bytes(srd_emit_length(p) + extra + payload + pad, std::byte{0});
  const std::byte* const end = srd_emit(bytes.data(), p, pad);
  REQUIRE(end == bytes.data() + srd_emit_length(p));
  return bytes;
}

// In a buffer of exactly its size, for the sanitizers.
SrdError srd_parse_exact(const std::vector<std::byte>& bytes, size_t length, SrdPacket& out) {
  static std::unique_ptr<std::byte[]> copy;
  copy.reset(new std::byte[length]);
  if (length != 0) std::memcpy(copy.get(), bytes.data(), length);
  return srd_parse(copy.get(), static_cast<uint32_t>(length), 0, 0, out);
}

}  // namespace

TEST_CASE("switches raise the digest of sequenced packets, and change nothing else") {
  for (uint32_t opcode = 0; opcode < 256; ++opcode) {
    SrdPacket p = srd_sample(static_cast<SrdOpcode>(opcode), 0);
    std::vector<std::byte> bytes = bytes_of(p, 0);
    const std::vector<std::byte> before = bytes;
    const auto length = static_cast<uint32_t>(bytes.size());
    for (const uint8_t digest : {7, 200, 9}) raise_srd_digest(bytes.data(), length, digest);
    const bool sequenced = opcode >= 1 && opcode <= 11;
    CHECK(bytes[4] == std::byte{sequenced ? uint8_t{200} : uint8_t{0}});
    bytes[4] = before[4];
    CHECK(bytes == before);
    if (!sequenced) continue;
    raise_srd_digest(bytes.data(), sizeof(SrdBase) - 1, 50);  // too short to be one
    bytes[1] = std::byte{1 << 4};                             // of another version
    raise_srd_digest(bytes.data(), length, 50);
    CHECK(bytes[4] == std::byte{0});
  }
}

TEST_CASE("an SRD packet is parsed as it was emitted") {
  for (uint8_t opcode = 1; opcode <= 18; ++opcode) {
    for (uint32_t flags = 0; flags < 256; ++flags) {
      if ((flags & srd_flag::kProtected) != 0) continue;
      SrdPacket p = srd_sample(static_cast<SrdOpcode>(opcode), static_cast<uint8_t>(flags));
      if (p.opcode == SrdOpcode::read_request) p.flags |= srd_flag::kFragment;
      const uint32_t payload = may_carry_payload(p.opcode) ? 13 : 0;
      const bool exists = opcode <= 11 || opcode >= 16;
      const std::vector<std::byte> bytes = bytes_of(p, payload);
      SrdPacket q;
      INFO(int{opcode} << " " << flags);
      REQUIRE((srd_parse_exact(bytes, bytes.size(), q) == SrdError::none) == exists);
      if (!exists) continue;
      CHECK(q.path == p.path);
      CHECK(q.detail == p.detail);
      CHECK(q.path_sequence == p.path_sequence);
      CHECK(q.dest == p.dest);
      CHECK(q.source == p.source);
      CHECK(q.epoch == p.epoch);
      CHECK(q.incarnation == p.incarnation);
      CHECK(q.sequence == p.sequence);
      CHECK(q.payload_length == payload);
      CHECK(q.message == (names_message(p.opcode, p.flags) ? p.message : 0));
      const bool cut = is_sequenced(p.opcode) && p.has(srd_flag::kFragment);
      CHECK(q.length == (cut ? p.length : payload));
      CHECK(q.offset == (cut ? p.offset : 0));
      if (has_remote(p.opcode)) {
        CHECK(q.address == p.address);
        CHECK(q.rkey == p.rkey);
      }
      if (is_sequenced(p.opcode) && p.has(srd_flag::kImmediate)) CHECK(q.immediate == p.immediate);
      if (is_sequenced(p.opcode) && p.has(srd_flag::kCreditRequest))
        CHECK(q.requested_credit == p.requested_credit);
      if (is_sequenced(p.opcode) && p.has(srd_flag::kOrdered)) CHECK(q.order == p.order);
    }
  }
}

TEST_CASE("the bytes of an SRD packet are where SRD.md says") {
  SrdPacket p = srd_sample(SrdOpcode::write,
                           srd_flag::kFragment | srd_flag::kImmediate | srd_flag::kCreditRequest);
  SrdIntroduction introduction;
  introduction.stamp = 0x0102030405060708;
  introduction.process = 0x1112131415161718;
  introduction.first = 0x212223242526;
  p.introduction = &introduction;
  const std::vector<std::byte> bytes = bytes_of(p, 0);
  const uint8_t wanted[] = {
      0x02, 0x21, 0x1A, 0x21, 0x00, 0x0A, 0x0B, 0x0C, 0x51, 0x52, 0x53, 0x54,  // base
      0x61, 0x62, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x43, 0x54, 0x81, 0x82,
      0x83, 0x84, 0x85, 0x86, 0x32, 0x1A, 0x1B, 0x1C, 0x01, 0x02, 0x03, 0x04,
      0x05, 0x06, 0x07, 0x08, 0x11, 0x12, 0x13, 0x14,  // introduction
      0x15, 0x16, 0x17, 0x18, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x00, 0x00,
      0x71, 0x72, 0x73, 0x74,                                                  // message
      0x00, 0x00, 0xF0, 0x00, 0x00, 0x00, 0x10, 0x00,                          // fragment
      0x91, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0xA1, 0xA2, 0xA3, 0xA4,  // remote
      0xB1, 0xB2, 0xB3, 0xB4, 0xB5, 0xB6, 0xB7, 0xB8,                          // immediate
      0xE1, 0xE2, 0xE3, 0xE4,                                                  // Q_Key
      0xC1, 0xC2, 0xC3, 0xC4};                                                 // requested credit
  REQUIRE(bytes.size() == sizeof wanted);
  CHECK(std::memcmp(bytes.data(), wanted, sizeof wanted) == 0);
  SrdPacket q;
  REQUIRE(srd_parse(bytes.data(), sizeof wanted, 0, 100, q) == SrdError::none);
  REQUIRE(q.introduction != nullptr);
  CHECK(q.introduction->first == 0x212223242526);
  CHECK(q.queue_key == 0xE1E2E3E4);
  CHECK(q.rkey == 0xA1A2A3A4);
}

TEST_CASE(
    "an acknowledgement has as many bitmap words as its header says, and no more than allowed") {
  SrdPacket p = srd_sample(SrdOpcode::acknowledge, 0);
  std::vector<std::byte> bytes = bytes_of(p, 0);
  SrdAck ack;
  ack.echo = 0xC1C2C3C4;
  ack.words = 2;
  std::memcpy(&bytes[sizeof(SrdBase)], &ack, sizeof ack);
  SrdPacket q;
  CHECK(srd_parse_exact(bytes, bytes.size(), q) == SrdError::too_short);
  bytes.resize(bytes.size() + 16);
  REQUIRE(srd_parse_exact(bytes, bytes.size(), q) == SrdError::none);
  CHECK(q.ack->echo == 0xC1C2C3C4);
  bytes.resize(bytes.size() + 8);
  CHECK(srd_parse_exact(bytes, bytes.size(), q) == SrdError::bad_payload);
  ack.words = kSrdMostWords + 1;
  std::memcpy(&bytes[sizeof(SrdBase)], &ack, sizeof ack);
  bytes.resize(sizeof(SrdBase) + sizeof(SrdAck) + 8 * ack.words);
  CHECK(srd_parse_exact(bytes, bytes.size(), q) == SrdError::bad_payload);
}

TEST_CASE("a rails packet has as many addresses as its header says, and no more than allowed") {
  SrdPacket p = srd_sample(SrdOpcode::rails, 0);
  const auto packet = [&p](const SrdRails& body, size_t addresses) {
    std::vector<std::byte> bytes(srd_emit_length(p) + sizeof body + 16 * addresses,
                                 std::byte{0x5A});
    CHECK(srd_emit(bytes.data(), p, 0) == bytes.data() + sizeof(SrdBase));
    std::memcpy(&bytes[sizeof(SrdBase)], &body, sizeof body);
    return bytes;
  };
  SrdPacket q;
  const auto parsed = [&](const SrdRails& body, size_t addresses) {
    const std::vector<std::byte> bytes = packet(body, addresses);
    return srd_parse_exact(bytes, bytes.size(), q);
  };
  SrdRails body;
  body.primary = Gid::from_ipv4(10, 0, 0, 1);
  body.challenge = 0xC1C2C3C4;
  body.answers = 1;
  for (uint8_t count = 0; count <= kSrdMostRails; ++count) {
    body.count = count;
    REQUIRE(parsed(body, count) == SrdError::none);
    CHECK(q.rails->primary == body.primary);
    CHECK(q.rails->challenge == 0xC1C2C3C4);
    CHECK(parsed(body, count + 1u) == SrdError::bad_payload);
    if (count > 0) CHECK(parsed(body, count - 1u) == SrdError::too_short);
  }
  body.count = kSrdMostRails + 1;
  CHECK(parsed(body, body.count) == SrdError::bad_payload);
  body.count = 0;
  body.answers = 2;
  CHECK(parsed(body, 0) == SrdError::bad_payload);
  body.answers = 0;
  body.version = 2;
  CHECK(parsed(body, 0) == SrdError::bad_version);
  const std::vector<std::byte> bytes = packet(body, 0);
  const uint8_t wanted[] = {0,  0, 0, 0, 0,    0,    0,    0,    0, 0, 0xFF, 0xFF,
                            10, 0, 0, 1, 0xC1, 0xC2, 0xC3, 0xC4, 2, 0, 0,    0};
  CHECK(std::memcmp(&bytes[sizeof(SrdBase)], wanted, sizeof wanted) == 0);
}

TEST_CASE("prefixes and mutations of SRD packets are never read past their end") {
  base::Random random(4);
  for (int round = 0; round < 20'000; ++round) {
    SrdPacket p = srd_sample(static_cast<SrdOpcode>(1 + random.below(18)),
                             static_cast<uint8_t>(random.next()));
    std::vector<std::byte> bytes = bytes_of(p, may_carry_payload(p.opcode) ? 5 : 0);
    for (uint64_t i = random.below(4); i-- > 0;)
      bytes[random.below(bytes.size())] = static_cast<std::byte>(random.next());
    const size_t length = random.below(bytes.size() + 1);
    SrdPacket q;
    if (srd_parse_exact(bytes, length, q) != SrdError::none) continue;
    CHECK(length >= sizeof(SrdBase));
    CHECK(q.payload_length <= length);
    CHECK_FALSE(q.has(srd_flag::kProtected));
  }
}
