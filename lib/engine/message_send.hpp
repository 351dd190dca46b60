// SPDX-License-Identifier: BSD-3-Clause
// Cutting a SEND or WRITE into packets: the opcode of each, its headers and its part of the data.
// Inline: it runs once per packet, and each service has its own copy with its opcodes in it.
#pragma once

#include "lib/engine/message.hpp"
#include "lib/engine/payload.hpp"
#include "lib/wire/emit.hpp"

namespace weft::engine {

struct MessageShape {
  uint8_t opcode;
  uint32_t header_length;
};

// The opcode of packet `index` of a SEND or WRITE (IBTA table 38).
inline MessageShape message_shape(const SendEntry& entry, wire::OpClass service,
                                  uint32_t index) noexcept {
  const bool first = index == 0, last = index + 1 == entry.packets;
  const bool is_write = entry.opcode == Opcode::write || entry.opcode == Opcode::write_with_imm;
  const bool imm = entry.opcode == Opcode::send_with_imm || entry.opcode == Opcode::write_with_imm;
  uint8_t opcode = is_write ? wire::kRcWriteFirst : wire::kRcSendFirst;
  if (first && last) {
    opcode += imm ? 5 : 4;
  } else if (last) {
    opcode += imm ? 3 : 2;
  } else if (!first) {
    opcode += 1;
  }
  if (entry.opcode == Opcode::send_with_invalidate && last)
    opcode = first ? wire::kRcSendOnlyInv : wire::kRcSendLastInv;
  opcode += static_cast<uint8_t>(service);  // the same order in each class
  return {opcode, wire::opcode_info(opcode).header_length};
}

// How a packet leaves.
struct MessagePacket {
  wire::OpClass service = wire::OpClass::rc;
  bool ack_request = false;
  bool stable = false;  // the memory stays as it is until the peer has it: may go by reference
};

// Sends the next packet of `entry`, the request at the cursor, and moves the cursor. False: a local
// error, nothing was sent.
inline bool send_message_packet(Engine& engine, QueuePair& qp, const SendEntry& entry,
                                const MessagePacket& how, FrameBuilder& out) noexcept {
  const uint32_t index = static_cast<uint32_t>(qp.req.next - entry.first_psn);
  const bool last = index + 1 == entry.packets;
  const uint64_t offset = uint64_t{index} << qp.mtu_shift;
  const uint32_t length = last ? static_cast<uint32_t>(entry.length - offset) : qp.mtu();
  const MessageShape s = message_shape(entry, how.service, index);
  const wire::OpcodeInfo& info = wire::opcode_info(s.opcode);
  std::byte* at = out.start(qp.path, s.header_length, length);
  at = wire::emit_bth(at, {.opcode = s.opcode,
                           .solicited = entry.solicited && last,
                           .ack_request = how.ack_request,
                           .pad = out.pad_for(length),
                           .dest = qp.peer,
                           .psn = Psn{static_cast<uint32_t>(qp.req.next) & Psn::kMask}});
  if (info.xrceth) at = wire::emit_xrceth(at, entry.srq);
  if (info.reth) at = wire::emit_reth(at, entry.remote_address, RKey{entry.rkey}, entry.length);
  if (info.imm || info.ieth) wire::emit_imm(at, entry.imm_or_key);
  if (length != 0 && !gather_payload(engine, qp, offset, length, how.stable, out)) {
    out.cancel();
    return false;
  }
  out.finish();
  qp.req.next += 1;
  return true;
}

}  // namespace weft::engine
