// SPDX-License-Identifier: BSD-3-Clause
// Execution of SEND and WRITE packets at the receiver (IBTA 9.7.4): resources, keys, payload,
// completion.
#include "lib/roce/message/receive.hpp"

#include "lib/roce/message/shared_receives.hpp"

namespace weft::roce {

namespace {

using Message = Responder::Message;

// Copies the payload of a SEND into the oldest receive, at offset res.received.
Placed place_send(EngineState& engine, QueuePair& qp, const wire::Packet& packet,
                  const Frame& frame) noexcept {
  WEFT_DCHECK(!qp.rq.empty());
  const uint32_t index = qp.rq.head();
  if (qp.res.received + packet.payload_length > qp.rq[index].length) return Placed::too_long;
  return scatter_payload(engine, qp.domain, qp.rq.sges(index), qp.res.received, packet, frame);
}

Verdict execute_send(EngineState& engine, QueuePair& qp, const wire::Packet& packet,
                     const Frame& frame) noexcept {
  Responder& res = qp.res;
  if (packet.info->starts_message()) {
    if (!find_receive(engine, qp)) return Verdict::Kind::rnr;
    res.received = 0;
  }
  switch (place_send(engine, qp, packet, frame)) {
    case Placed::ok:
      break;
    case Placed::too_long:  //= roce:C-OPS-82
      return Verdict::nak(engine.config().habits.too_long, Status::local_length_error);
    case Placed::not_pulled:
      return Verdict::Kind::drop;
    default:  //= roce:C-NAK-40
      return Verdict::nak(wire::kNakRemoteOperation, Status::local_protection_error);
  }
  res.received += packet.payload_length;
  WEFT_DCHECK(res.received <= qp.rq[qp.rq.head()].length);
  res.message = packet.info->ends_message() ? Message::none : Message::send;
  if (!packet.info->ends_message()) return {};
  //= roce:C-OPS-73 the key is invalid before the completion can be seen
  if (packet.info->ieth && !engine.keys().revoke(packet.imm_or_key(), qp.access_context()))
    return Verdict::nak(wire::kNakRemoteAccess, Status::local_access_error);
  complete_receive(engine, qp, Status::success, static_cast<uint32_t>(res.received), &packet);
  return {};
}

// Starts the WRITE of a FIRST or ONLY packet. `*where` gets the memory of the whole message, unless
// that has no bytes.
Verdict begin_write(EngineState& engine, QueuePair& qp, const wire::Packet& packet,
                    std::byte** where) noexcept {
  Responder& res = qp.res;
  const wire::Reth& reth = packet.reth();
  res.write_key = reth.rkey;
  res.write_address = reth.address;
  res.write_length = reth.length;
  res.received = 0;
  if (res.write_length > engine.config().limits.max_message)
    return Verdict::nak(wire::kNakInvalidRequest);  //= roce:C-NAK-125
  if (!has(qp.access, Access::remote_write))
    return Verdict::nak(wire::kNakInvalidRequest);  //= roce:C-NAK-38
  if (res.write_length == 0) return {};             //= roce:C-OPS-78
  if (engine.keys().check(res.write_key, qp.access_context(), res.write_address, res.write_length,
                          Access::remote_write, where) != memory::Verdict::ok)
    return Verdict::nak(wire::kNakRemoteAccess);  //= roce:C-NAK-39
  return {};
}

// Copies the payload of a WRITE packet to offset res.received of the current WRITE: to `where`, if
// the key was checked for this packet already.
Placed place_write(EngineState& engine, QueuePair& qp, const wire::Packet& packet,
                   const Frame& frame, std::byte* where) noexcept {
  if (packet.payload_length == 0) return Placed::ok;
  const Responder& res = qp.res;
  if (where == nullptr &&
      engine.keys().check(res.write_key, qp.access_context(), res.write_address + res.received,
                          packet.payload_length, Access::remote_write,
                          &where) != memory::Verdict::ok)
    return Placed::access_error;
  return copy_payload(engine, where, packet, frame, 0, packet.payload_length);
}

Verdict execute_write(EngineState& engine, QueuePair& qp, const wire::Packet& packet,
                      const Frame& frame) noexcept {
  Responder& res = qp.res;
  const bool last = packet.info->ends_message();
  //= roce:C-OPS-72 roce:C-OPS-131
  if (last && packet.info->imm && !find_receive(engine, qp)) return Verdict::Kind::rnr;
  std::byte* where = nullptr;
  if (packet.info->starts_message()) {
    const Verdict begun = begin_write(engine, qp, packet, &where);
    if (begun.kind() != Verdict::Kind::accept) return begun;
  }
  const uint64_t after = res.received + packet.payload_length;
  if (last ? after != res.write_length : after >= res.write_length)
    return Verdict::nak(wire::kNakInvalidRequest);
  switch (place_write(engine, qp, packet, frame, where)) {
    case Placed::ok:
      break;
    case Placed::not_pulled:
      return Verdict::Kind::drop;
    default:
      return Verdict::nak(wire::kNakRemoteAccess);
  }
  WEFT_DCHECK(after <= res.write_length);
  res.received = after;
  res.message = last ? Message::none : Message::write;
  if (last && packet.info->imm)
    complete_receive(engine, qp, Status::success, res.write_length, &packet);
  return {};
}

}  // namespace

Verdict execute_message(EngineState& engine, QueuePair& qp, const wire::Packet& packet,
                        const Frame& frame) noexcept {
  WEFT_DCHECK(in_order(qp, packet) && length_fits(engine, qp, packet));
  return packet.info->operation == wire::Operation::send ? execute_send(engine, qp, packet, frame)
                                                         : execute_write(engine, qp, packet, frame);
}

}  // namespace weft::roce
