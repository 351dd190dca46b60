// SPDX-License-Identifier: BSD-3-Clause
// Packets that parse() refuses, and that it never reads past the end: every input is in a heap
// buffer of exactly its size, for AddressSanitizer.
#include <rapidcheck.h>

#include <cstring>
#include <memory>
#include <vector>

#include "lib/wire/emit.hpp"
#include "lib/wire/parse.hpp"
#include "tests/support/catch.hpp"

using namespace weft;
using namespace weft::wire;

namespace {

struct Exact {
  std::unique_ptr<std::byte[]> bytes;
  uint32_t length;
  explicit Exact(const std::vector<uint8_t>& from)
      : bytes(new std::byte[from.size()]), length(static_cast<uint32_t>(from.size())) {
    if (length != 0) std::memcpy(bytes.get(), from.data(), length);
  }
  ParseError parse(Packet& packet, uint32_t trailer = 4, uint32_t remote = 0) const {
    return wire::parse(bytes.get(), length, trailer, remote, packet);
  }
};

// A packet with `payload` bytes of payload and the right pad.
std::vector<uint8_t> make(uint8_t opcode, uint32_t payload, uint32_t trailer = 4) {
  const OpcodeInfo& info = opcode_info(opcode);
  const auto pad = static_cast<uint8_t>((0u - payload) & 3);
  std::vector<uint8_t> bytes(info.header_length + payload + pad + trailer);
  BthFields bth;
  bth.opcode = opcode;
  bth.pad = pad;
  bth.dest = QpNum{0x123456};
  bth.psn = Psn{42};
  emit_bth(reinterpret_cast<std::byte*>(bytes.data()), bth);
  return bytes;
}

}  // namespace

TEST_CASE("a header version other than 0 is refused C-HDR-2") {
  Packet p;
  for (int version = 1; version < 16; ++version) {
    std::vector<uint8_t> bytes = make(kRcSendOnly, 4);
    bytes[1] = static_cast<uint8_t>(bytes[1] | version);
    CHECK(Exact(bytes).parse(p) == ParseError::bad_version);
  }
}

TEST_CASE("the pad is not part of the payload C-HDR-3") {
  Packet p;
  for (uint32_t payload = 0; payload < 9; ++payload) {
    const Exact packet(make(kRcSendOnly, payload));
    REQUIRE(packet.parse(p) == ParseError::none);
    CHECK(p.payload_length == payload);
    CHECK(p.pad == ((0u - payload) & 3));
    CHECK(p.payload == packet.bytes.get() + 12);
  }
}

TEST_CASE("a pad longer than the payload is refused C-HDR-3 C-HDR-4") {
  std::vector<uint8_t> bytes = make(kRcSendOnly, 0);
  bytes[1] = 0x30;
  Packet p;
  CHECK(Exact(bytes).parse(p) == ParseError::too_short);
}

TEST_CASE("every packet cut short is refused without reading past its end C-HDR-4") {
  for (int opcode = 0; opcode < 256; ++opcode) {
    const OpcodeInfo& info = opcode_info(static_cast<uint8_t>(opcode));
    if (!info.known()) continue;
    INFO(info.name);
    const std::vector<uint8_t> whole = make(static_cast<uint8_t>(opcode), 0);
    Packet p;
    CHECK(Exact(whole).parse(p) == ParseError::none);
    for (size_t length = 0; length < whole.size(); ++length) {
      const std::vector<uint8_t> cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(length));
      CHECK(Exact(cut).parse(p) == ParseError::too_short);
    }
  }
}

TEST_CASE("unknown opcodes are refused whatever follows C-HDR-5") {
  for (int opcode = 0; opcode < 256; ++opcode) {
    if (opcode_info(static_cast<uint8_t>(opcode)).known()) continue;
    for (size_t length : {16u, 20u, 64u, 1000u}) {
      std::vector<uint8_t> bytes(length, 0xFF);
      bytes[0] = static_cast<uint8_t>(opcode);
      bytes[1] = 0;
      Packet p;
      CHECK(Exact(bytes).parse(p) == ParseError::bad_opcode);
    }
  }
}

TEST_CASE("payload or pad where the opcode has none is refused C-HDR-3") {
  for (uint8_t opcode :
       {kRcReadRequest, kRcAcknowledge, kRcAtomicAcknowledge, kRcCompareSwap, kRcFetchAdd, kCnp}) {
    std::vector<uint8_t> bytes = make(opcode, 0);
    bytes.resize(bytes.size() + 4);
    Packet p;
    CHECK(Exact(bytes).parse(p) == ParseError::bad_payload);
    bytes[1] = 0x10;
    CHECK(Exact(bytes).parse(p) == ParseError::bad_payload);
  }
}

TEST_CASE("XRCETH comes before all other extended headers C-HDR-6") {
  for (const RcOpcode opcode : {kRcSendOnly, kRcWriteOnlyImm, kRcCompareSwap, kRcFlush}) {
    const uint8_t xrc = in_class(OpClass::xrc, opcode);
    const OpcodeInfo& info = opcode_info(xrc);
    std::vector<uint8_t> bytes = make(xrc, 0);
    auto* at = reinterpret_cast<std::byte*>(bytes.data()) + kBthLength;
    at = emit_xrceth(at, 0xAB123456);  // 24 bits of it
    if (info.feth) at = emit_feth(at, 3, 1);
    if (info.reth) at = emit_reth(at, 0x1122334455667788, RKey{9}, 77);
    if (info.atomic_eth) at = emit_atomic_eth(at, 0x8877665544332211, RKey{9}, 5, 6);
    if (info.imm) emit_imm(at, 0xCAFE);
    CHECK(bytes[12] == 0);
    CHECK(bytes[13] == 0x12);
    CHECK(bytes[15] == 0x56);
    bytes[12] = 0xFF;  // reserved
    Packet p;
    const Exact packet(bytes);
    REQUIRE(packet.parse(p) == ParseError::none);
    CHECK(p.xrceth().srq == 0x123456);
    if (info.feth) CHECK(p.feth().placement() == 3);
    if (info.reth) CHECK(p.reth().address == 0x1122334455667788);
    if (info.reth) CHECK(p.reth().length == 77);
    if (info.atomic_eth) CHECK(p.atomic_eth().compare == 6);
    if (info.imm) CHECK(p.imm_or_key() == 0xCAFE);
    CHECK(p.payload == packet.bytes.get() + info.header_length);
  }
}

TEST_CASE("destination queue pair 0 is refused, 1 and the multicast one are not C-HDR-10") {
  Packet p;
  for (uint32_t qpn : {0u, 1u, 0xFFFFFFu}) {
    std::vector<uint8_t> bytes = make(kRcSendOnly, 0);
    bytes[5] = static_cast<uint8_t>(qpn >> 16);
    bytes[6] = static_cast<uint8_t>(qpn >> 8);
    bytes[7] = static_cast<uint8_t>(qpn);
    CHECK(Exact(bytes).parse(p) == (qpn ? ParseError::none : ParseError::bad_dest_qpn));
    CHECK(p.dest_qpn.value == qpn);
  }
}

TEST_CASE("payload by reference comes with headers alone") {
  Packet p;
  REQUIRE(Exact(make(kRcSendOnly, 0, 0)).parse(p, 0, 4096) == ParseError::none);
  CHECK(p.payload_length == 4096);
  CHECK(Exact(make(kRcSendOnly, 4, 0)).parse(p, 0, 4096) == ParseError::bad_payload);
  CHECK(Exact(make(kRcAcknowledge, 0, 0)).parse(p, 0, 1) == ParseError::bad_payload);
}

TEST_CASE("for arbitrary bytes, accepted headers and payload lie inside them C-HDR-4") {
  CHECK(rc::check("accepted packets lie inside the frame", [] {
    auto bytes = *rc::gen::container<std::vector<uint8_t>>(rc::gen::arbitrary<uint8_t>());
    // Half of the time something that gets past the first checks.
    if (*rc::gen::arbitrary<bool>() && bytes.size() >= 16) {
      bytes[0] = static_cast<uint8_t>(*rc::gen::inRange(0, 0x18));
      bytes[1] = static_cast<uint8_t>(bytes[1] & 0xF0);
    }
    const uint32_t trailer = *rc::gen::arbitrary<bool>() ? 4 : 0;
    const Exact exact(bytes);
    Packet p;
    if (exact.parse(p, trailer) != ParseError::none) return;
    RC_ASSERT(p.payload == exact.bytes.get() + p.info->header_length);
    RC_ASSERT(p.info->header_length + p.payload_length + p.pad + trailer == exact.length);
    RC_ASSERT(p.info == &opcode_info(static_cast<uint8_t>(exact.bytes[0])));
  }));
}
