// SPDX-License-Identifier: BSD-3-Clause
// The parsers against arbitrary bytes: they never read past the end (inputs lie in heap buffers of
// exactly their size, for AddressSanitizer), what they accept lies inside, and writing what they
// read gives the same bytes. The first byte of an input chooses: bit 0 an Ethernet frame instead of
// a packet from the BTH on, bit 1 no ICRC, bit 2 payload outside the frame.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>

#include "lib/wire/emit.hpp"
#include "lib/wire/encapsulation.hpp"
#include "lib/wire/icrc.hpp"
#include "lib/wire/parse.hpp"
#include "tests/fuzz/input.hpp"

using namespace weft;
using namespace weft::wire;
using fuzz::require;

namespace {

std::unique_ptr<std::byte[]> exact_copy(const void* data, size_t size) {
  std::unique_ptr<std::byte[]> copy(new std::byte[size]);
  if (size != 0) std::memcpy(copy.get(), data, size);
  return copy;
}

// Writes the headers of `p` again, in the order of the table. Reserved bits come out as zeros.
std::byte* emit_again(std::byte* at, const Packet& p, bool mig_req) {
  at = emit_bth(at,
                {p.opcode, p.solicited, p.ack_request, p.pad, p.dest_qpn, p.psn, p.pkey, mig_req});
  const OpcodeInfo& i = *p.info;
  if (i.xrceth) at = emit_xrceth(at, p.xrceth().srq);
  if (i.feth) at = emit_feth(at, p.feth().placement(), p.feth().selectivity());
  if (i.reth) at = emit_reth(at, p.reth().address, RKey{p.reth().rkey}, p.reth().length);
  if (i.aeth) at = emit_aeth(at, p.aeth().syndrome, p.aeth().msn);
  if (i.atomic_eth) {
    const AtomicEth& a = p.atomic_eth();
    at = emit_atomic_eth(at, a.address, RKey{a.rkey}, a.swap_or_add, a.compare);
  }
  if (i.deth) at = emit_deth(at, p.deth().qkey, QpNum{p.deth().source_qpn});
  if (i.atomic_ack_eth) at = emit_atomic_ack_eth(at, p.atomic_ack_eth().original);
  if (i.imm) at = emit_imm(at, p.imm_or_key());
  if (i.ieth) at = emit_ieth(at, RKey{p.imm_or_key()});
  return at;
}

void check_packet(const std::byte* bytes, uint32_t length, uint32_t trailer, uint32_t remote) {
  Packet p;
  if (parse(bytes, length, trailer, remote, p) != ParseError::none) return;
  require(p.info->known() && p.opcode == static_cast<uint8_t>(bytes[0]), "opcode");
  require(p.payload == bytes + p.info->header_length, "payload begins behind the headers");
  require(p.info->header_length + p.payload_length - remote + p.pad + trailer == length,
          "the parts sum up to the whole");
  const Bth& bth = *reinterpret_cast<const Bth*>(bytes);
  std::byte again[128] = {};
  const std::byte* end = emit_again(again, p, bth.mig_req());
  const size_t size = p.info->operation == Operation::cnp ? kBthLength : p.info->header_length;
  require(end == again + size, "emitted length");
  std::byte expected[128] = {};
  std::memcpy(expected, bytes, size);
  expected[4] = std::byte{0};      // F, B, reserved
  expected[8] &= std::byte{0x80};  // A, reserved
  if (p.info->deth) expected[16] = std::byte{0};
  if (p.info->xrceth) expected[kBthLength] = std::byte{0};
  if (p.info->feth) {  // of its 32 bits 4 + 2 mean something
    std::byte* const feth = expected + kBthLength + (p.info->xrceth ? 4 : 0);
    feth[0] = feth[1] = feth[2] = std::byte{0};
    feth[3] &= std::byte{0x3F};
  }
  require(std::memcmp(again, expected, size) == 0, "emit(parse(x)) == x");
}

void check_frame(const std::byte* frame, uint32_t length) {
  Outer outer;
  Transport t;
  if (parse_outer(frame, length, outer, t) != OuterError::none) return;
  require(t.bytes >= frame && t.bytes + t.length <= frame + length, "transport inside the frame");
  std::byte again[kMaxOuterLength];
  const uint32_t size = emit_outer(again, outer, t.length);
  require(size == outer_length(outer) && size <= kMaxOuterLength, "outer length");
  // A tag may hold bits that are not kept (DEI, or nothing at all).
  const bool tagged = frame[12] == std::byte{0x81} && frame[13] == std::byte{0x00};
  if (!tagged) require(std::memcmp(again, frame, size) == 0, "emit_outer(parse_outer(x)) == x");
  const auto transport = exact_copy(t.bytes, t.length);
  OuterHeader header{&outer.source, &outer.destination, outer.source_port, outer.destination_port,
                     outer.ip_id};
  const bool right = icrc_verify(header, transport.get(), t.length);
  OuterHeader guess = header;
  guess.ip_id ^= 0x55AA;
  const bool fits = icrc_verify_unknown_id(guess, transport.get(), t.length);
  require(!right || fits, "a right ICRC fits some identification");
  require(!right || !outer.is_ipv4() || guess.ip_id == outer.ip_id, "and it is the right one");
  check_packet(transport.get(), t.length, 4, 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0 || size > 65'536) return 0;
  const uint8_t mode = data[0];
  const auto length = static_cast<uint32_t>(size - 1);
  const auto bytes = exact_copy(data + 1, length);
  if (mode & 1)
    check_frame(bytes.get(), length);
  else
    check_packet(bytes.get(), length, mode & 2 ? 0 : 4, mode & 4 ? 64 : 0);
  return 0;
}
