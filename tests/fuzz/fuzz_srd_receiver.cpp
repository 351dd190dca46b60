// SPDX-License-Identifier: BSD-3-Clause
// An SRD receiver with a malicious sender: raw bytes, and sequenced packets near the expected ones
// (stream, sequence, key and message, each sometimes wrong), while receives are posted. See
// srd_fixture.hpp.
#include "tests/fuzz/srd_fixture.hpp"

namespace {

using namespace weft;
using fuzz::Input;
using fuzz::SrdFixture;

void post(SrdFixture& f, Input& in) {
  const Sge sge{f.open(), in.take<uint16_t>() % uint32_t{SrdFixture::kOpen}, LKey{f.key}};
  const RecvRequest r{f.next_id, {&sge, 1}};
  if (f.engine.post_recv(*f.qp, {&r, 1}).accepted != 0) f.posted.push_back(f.next_id++);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 16'384) return 0;
  Input in{data, size};
  SrdFixture f(in.take<uint8_t>());
  uint64_t sequence = 0;
  const auto packet = [&sequence](SrdFixture& to, Input& from) {
    const auto twist = from.take<uint8_t>();
    const auto opcode = static_cast<wire::SrdOpcode>(from.take<uint8_t>() % 12);
    wire::SrdPacket p = to.draw(from, twist);
    p.opcode = opcode;
    const bool next = (twist & 0x60) != 0x60;
    p.sequence = next ? sequence++ : sequence + static_cast<uint64_t>(from.take<int8_t>());
    std::byte operands[16];
    for (std::byte& b : operands) b = static_cast<std::byte>(from.take<uint8_t>());
    to.give(p, std::span(operands).first(wire::operand_bytes(opcode)),
            from.take<uint16_t>() % 5000);
  };
  f.play(in, packet, post);
  return 0;
}
