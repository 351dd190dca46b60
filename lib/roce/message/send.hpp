// SPDX-License-Identifier: BSD-3-Clause
// Cutting a SEND or WRITE into packets: the opcode of each, its headers and its part of the data.
// Inline: it runs once per packet, and each service has its own copy with its opcodes in it.
#pragma once

#include "lib/roce/message/payload.hpp"
#include "lib/roce/message/receive.hpp"
#include "lib/wire/emit.hpp"

namespace weft::roce {

namespace detail {
// By posted opcode, then by place: MIDDLE, FIRST, LAST, ONLY (IBTA table 38).
inline constexpr wire::RcOpcode kMessageOpcodes[][4] = {
    {wire::kRcSendMiddle, wire::kRcSendFirst, wire::kRcSendLast, wire::kRcSendOnly},
    {wire::kRcSendMiddle, wire::kRcSendFirst, wire::kRcSendLastImm, wire::kRcSendOnlyImm},
    {wire::kRcSendMiddle, wire::kRcSendFirst, wire::kRcSendLastInv, wire::kRcSendOnlyInv},
    {wire::kRcWriteMiddle, wire::kRcWriteFirst, wire::kRcWriteLast, wire::kRcWriteOnly},
    {wire::kRcWriteMiddle, wire::kRcWriteFirst, wire::kRcWriteLastImm, wire::kRcWriteOnlyImm},
};
static_assert(Opcode::send_with_imm == Opcode{1} && Opcode::send_with_invalidate == Opcode{2} &&
              Opcode::write == Opcode{3} && Opcode::write_with_imm == Opcode{4});
}  // namespace detail

// The opcode of a packet of a SEND or WRITE.
inline uint8_t message_opcode(Opcode posted, wire::OpClass service, bool first,
                              bool last) noexcept {
  return wire::in_class(
      service,
      detail::kMessageOpcodes[static_cast<size_t>(posted)][(first ? 1 : 0) | (last ? 2 : 0)]);
}

// How a packet leaves.
struct MessagePacket {
  wire::OpClass service = wire::OpClass::rc;
  bool ack_request = false;
  bool stable = false;  // the memory stays as it is until the peer has it: may go by reference
};

// The part of a message that a packet carries.
struct MessagePart {
  bool first = true;
  bool last = true;
  uint32_t length = 0;
};

// Starts the frame of a packet of `entry`, the request at the cursor: all but its payload.
[[gnu::always_inline]] inline void start_message_packet(const QueuePair& qp, const SendEntry& entry,
                                                        const MessagePart& part,
                                                        const MessagePacket& how,
                                                        FrameBuilder& out) noexcept {
  const uint8_t opcode = message_opcode(entry.opcode, how.service, part.first, part.last);
  const wire::OpcodeInfo& info = wire::opcode_info(opcode);
  std::byte* at = out.start(qp.path, info.header_length, part.length);
  at = wire::emit_bth(at, {.opcode = opcode,
                           .solicited = entry.solicited && part.last,
                           .ack_request = how.ack_request,
                           .pad = out.pad_for(part.length),
                           .dest = qp.peer,
                           .psn = Psn{static_cast<uint32_t>(qp.req.next) & Psn::kMask}});
  if (info.xrceth) at = wire::emit_xrceth(at, entry.srq);
  if (info.reth) at = wire::emit_reth(at, entry.remote_address, RKey{entry.rkey}, entry.length);
  if (info.imm || info.ieth) wire::emit_imm(at, entry.imm_or_key);
}

// Sends the next packet of `entry`, the request at the cursor, and moves the cursor. False: a local
// error, nothing was sent.
inline bool send_message_packet(Engine& engine, QueuePair& qp, const SendEntry& entry,
                                const MessagePacket& how, FrameBuilder& out) noexcept {
  const uint32_t index = static_cast<uint32_t>(qp.req.next - entry.first_psn);
  const bool last = index + 1 == entry.packets;
  const uint64_t offset = uint64_t{index} << qp.mtu_shift;
  const uint32_t length = last ? static_cast<uint32_t>(entry.length - offset) : qp.mtu();
  start_message_packet(qp, entry, {index == 0, last, length}, how, out);
  if (length != 0 && !gather_payload(engine, qp, offset, length, how.stable, out)) {
    out.cancel();
    return false;
  }
  out.finish();
  qp.req.next += 1;
  return true;
}

}  // namespace weft::roce
