// SPDX-License-Identifier: BSD-3-Clause
// SEND and WRITE messages cut into packets of the path MTU, for RC and UC: the opcode of each
// packet, its headers, and its payload from the memory that scatter/gather entries name. Inline: it
// runs once per packet, and each service has its own copy with its opcodes in it.
#pragma once

#include <algorithm>

#include "lib/roce/state/engine_state.hpp"
#include "lib/transport/frame_builder.hpp"
#include "lib/wire/emit.hpp"

namespace weft::roce {

// Why serving a queue pair ended.
enum class Served : uint8_t {
  idle,  // nothing (more) to send until an event activates it
  more,  // quantum or room exhausted: serve it again
};

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

// How a packet is sent.
struct MessagePacket {
  wire::OpClass service = wire::OpClass::rc;
  bool ack_request = false;
  bool stable = false;  // the memory is unchanged until acknowledged: may be passed by reference
};

// The part of a message that a packet carries.
struct MessagePart {
  bool first = true;
  bool last = true;
  uint32_t length = 0;
};

// Starts the frame of a packet of `entry`, the request at the cursor: headers without payload.
[[gnu::always_inline]] inline void start_message_packet(const QueuePair& qp, const SendEntry& entry,
                                                        const MessagePart& part,
                                                        const MessagePacket& how,
                                                        FrameBuilder& out) noexcept {
  WEFT_DCHECK(entry.message() && part.length <= qp.mtu());
  const uint8_t opcode = message_opcode(entry.opcode, how.service, part.first, part.last);
  const wire::OpcodeInfo& info = wire::opcode_info(opcode);
  std::byte* at = out.start(qp.path, info.header_length, part.length);
  at = wire::emit_bth(at,
                      {.opcode = opcode,
                       .solicited = entry.solicited && part.last,
                       .ack_request = how.ack_request,
                       .pad = out.pad_for(part.length),
                       .dest = qp.peer,
                       .psn = Psn{static_cast<uint32_t>(qp.req.next) & Psn::kMask}},
                      qp.bth_constants);
  if (info.xrceth) at = wire::emit_xrceth(at, entry.srq);
  if (info.reth) at = wire::emit_reth(at, entry.remote_address, RKey{entry.rkey}, entry.length);
  if (info.imm || info.ieth) wire::emit_imm(at, entry.imm_or_key);
}

// Adds `length` payload bytes of the request at the cursor, from `offset` on, to the frame under
// construction. `stable` as in TxFrame. False: a key, a bound or a page is invalid.
inline bool gather_payload(EngineState& engine, QueuePair& qp, uint64_t offset, uint32_t length,
                           bool stable, FrameBuilder& out) noexcept {
  const uint32_t index = qp.req.next_index;
  WEFT_DCHECK(offset + length <= qp.sq[index].length);
  if (qp.sq[index].is_inline) {
    out.add_safe_payload(qp.sq.inline_data(index) + offset, length);
    return true;
  }
  const Sge* sges = qp.sq.sges(index);
  for (uint32_t i = 0; length != 0; ++i) {
    WEFT_DCHECK(i < qp.sq[index].sge_count);
    if (offset >= sges[i].length) {
      offset -= sges[i].length;
      continue;
    }
    const uint32_t piece =
        static_cast<uint32_t>(std::min<uint64_t>(length, sges[i].length - offset));
    const uint64_t address = reinterpret_cast<uint64_t>(sges[i].address) + offset;
    std::byte* where;
    if (engine.keys().check(sges[i].lkey.value, qp.domain, address, piece, Access::none, &where) !=
        memory::Verdict::ok)
      return false;
    if (!out.add_payload(where, piece, stable)) return false;
    length -= piece;
    offset = 0;
  }
  return true;
}

// Sends the next packet of `entry`, the request at the cursor, and advances `next`. False: a local
// error, nothing was sent.
inline bool send_message_packet(EngineState& engine, QueuePair& qp, const SendEntry& entry,
                                const MessagePacket& how, FrameBuilder& out) noexcept {
  WEFT_DCHECK(qp.req.next >= entry.first_psn && qp.req.next < entry.end_psn());
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
