// SPDX-License-Identifier: BSD-3-Clause
// SRD's parser against arbitrary bytes: it never reads past the end (they lie in a heap buffer of
// exactly their size, for AddressSanitizer), what it accepts lies inside, and writing what it has
// read and reading that again gives the same packet. The first byte chooses: bit 0 no ICRC,
// bit 1 payload outside the frame.
#include <memory>

#include "lib/wire/srd_parse.hpp"
#include "tests/fuzz/input.hpp"

using namespace weft;
using namespace weft::wire;
using fuzz::require;

namespace {

void check_again(const SrdPacket& p, uint8_t pad) {
  std::byte bytes[256] = {};
  const std::byte* const end = srd_emit(bytes, p, pad);
  require(end == bytes + srd_emit_length(p), "emitted length");
  // Their bodies are not for srd_emit.
  if (p.opcode == SrdOpcode::acknowledge || p.opcode == SrdOpcode::rails) return;
  const uint32_t rest = operand_bytes(p.opcode) + pad + p.payload_length % 64;
  SrdPacket q;
  require(srd_parse(bytes, srd_emit_length(p) + rest, 0, 0, q) == SrdError::none, "read again");
  require(q.opcode == p.opcode && q.flags == p.flags && q.path == p.path && q.detail == p.detail &&
              q.path_sequence == p.path_sequence && q.dest == p.dest && q.source == p.source &&
              q.epoch == p.epoch && q.incarnation == p.incarnation && q.message == p.message &&
              q.sequence == p.sequence && q.address == p.address && q.rkey == p.rkey &&
              q.immediate == p.immediate && q.requested_credit == p.requested_credit &&
              q.order == p.order && q.queue_key == p.queue_key &&
              (q.introduction == nullptr) == (p.introduction == nullptr),
          "the same packet");
  if (p.has(srd_flag::kFragment) && is_sequenced(p.opcode))
    require(q.length == p.length && q.offset == p.offset, "the same fragment");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input in{data, size};
  const auto choice = in.take<uint8_t>();
  const uint32_t icrc_length = (choice & 1) != 0 ? 0 : 4,
                 external_payload_length = (choice & 2) != 0 ? 100 : 0;
  const auto length = static_cast<uint32_t>(in.left);
  const std::unique_ptr<std::byte[]> bytes(new std::byte[length]);
  if (length != 0) std::memcpy(bytes.get(), in.at, length);
  SrdPacket p;
  if (srd_parse(bytes.get(), length, icrc_length, external_payload_length, p) != SrdError::none)
    return 0;
  const auto& base = *reinterpret_cast<const SrdBase*>(bytes.get());
  require(p.payload >= bytes.get() + sizeof(SrdBase), "payload lies behind the headers");
  require(p.payload + (p.payload_length - external_payload_length) + base.pad() + icrc_length ==
              bytes.get() + length,
          "the parts sum up to the whole");
  check_again(p, base.pad());
  return 0;
}
