// SPDX-License-Identifier: BSD-3-Clause
// SEND, and WRITE with or without immediate data: payload is placed in whatever order packets
// arrive, and the receive completes when all bytes of its message are there.
#include "lib/srd/receive/receive.hpp"

namespace weft::srd {

using wire::SrdOpcode;
using wire::SrdReason;

namespace {

void complete_receive(ReceiveContext& ctx, Peer& peer, QueuePair& qp, uint32_t slot,
                      const Arrival& a, uint32_t bytes) noexcept {
  const wire::SrdPacket& p = a.packet;
  const bool imm = p.has(wire::srd_flag::kImmediate);
  Completion c;
  c.id = qp.receives[slot].id;
  c.byte_count = bytes;
  c.qp = qp.number;
  c.source_qp = p.source;
  c.source_peer = ctx.first_peer() + peer.index;
  c.type = imm ? WorkType::recv_with_imm : WorkType::recv;
  if (imm) {
    c.imm_or_key = static_cast<uint32_t>(p.immediate);
    c.imm_high = static_cast<uint32_t>(p.immediate >> 32);
    c.flags = CompletionFlags::with_imm;
  }
  if (p.opcode == SrdOpcode::write) c.flags = c.flags | CompletionFlags::rdma_write;
  qp.receives.slots.give(slot);
  if (p.opcode == SrdOpcode::send && p.has(wire::srd_flag::kOrdered))
    return hold_completion(ctx, peer, p.order, c, p.has(wire::srd_flag::kSolicited));
  ctx.complete(qp, *qp.recv_cq, c, p.has(wire::srd_flag::kSolicited));
}

}  // namespace

Outcome execute_send(ReceiveContext& ctx, Peer& peer, QueuePair& qp, const Arrival& a,
                     SrdReason& why) noexcept {
  const wire::SrdPacket& p = a.packet;
  const bool whole = !p.has(wire::srd_flag::kFragment);
  if (p.offset > p.length || p.payload_length > p.length - p.offset || (!whole && p.length == 0)) {
    why = SrdReason::invalid;
    return Outcome::refused;
  }
  const uint64_t name = AssemblyTable::name_of(peer.index, p.message);
  Assembly* assembly = whole ? nullptr : ctx.assemblies.find(name);
  const bool ordered = p.has(wire::srd_flag::kOrdered);
  if (assembly != nullptr && (assembly->qp != qp.number || assembly->length != p.length ||
                              assembly->ordered != ordered || assembly->order != p.order)) {
    why = SrdReason::invalid;
    return Outcome::refused;
  }
  if (assembly == nullptr && !may_bind(ctx, peer, qp, p, why)) return Outcome::refused;
  const uint32_t slot = assembly != nullptr ? assembly->receive : qp.receives.front();
  const Receive& receive = qp.receives[slot];
  if (p.length > receive.length) {
    why = SrdReason::length;
    return Outcome::refused;
  }
  const bool full = peer.rx.assemblies >= AssemblyTable::kMostPerPeer;
  if (!whole && assembly == nullptr && (full || !ctx.assemblies.provide())) {
    why = SrdReason::busy;
    return Outcome::refused;
  }
  const Outcome placed = place_payload(ctx, qp.receives.slots.sges(slot), receive.sge_count,
                                       qp.domain, p.offset, a, why);
  if (placed != Outcome::executed) return placed;
  if (assembly == nullptr && ordered) peer.rx.order->bound.add(p.order);
  if (whole) {
    WEFT_DCHECK(qp.receives.front() == slot);
    qp.receives.pop();
    on_receive_taken(ctx, peer, qp, p.detail != 0);
    complete_receive(ctx, peer, qp, slot, a, p.length);
    return Outcome::executed;
  }
  if (assembly == nullptr) {  // the first packet that arrives binds a receive
    assembly = ctx.assemblies.insert(name);
    WEFT_DCHECK(assembly != nullptr && qp.receives.front() == slot);
    assembly->qp = qp.number;
    assembly->receive = qp.receives.pop();
    assembly->length = p.length;
    assembly->ordered = ordered;
    assembly->order = p.order;
    ++peer.rx.assemblies;
    on_receive_taken(ctx, peer, qp, p.detail != 0);
  }
  assembly->received += p.payload_length;
  if (assembly->received < p.length) return Outcome::executed;
  WEFT_DCHECK(peer.rx.assemblies > 0);
  ctx.assemblies.remove(assembly);
  --peer.rx.assemblies;
  complete_receive(ctx, peer, qp, slot, a, p.length);
  return Outcome::executed;
}

//= threat:A05 threat:A06
Outcome execute_write(ReceiveContext& ctx, Peer& peer, QueuePair& qp, const Arrival& a,
                      SrdReason& why) noexcept {
  const wire::SrdPacket& p = a.packet;
  const bool imm = p.has(wire::srd_flag::kImmediate);
  const bool whole = !p.has(wire::srd_flag::kFragment);
  why = SrdReason::access;
  if (!has(qp.access, Access::remote_write)) return Outcome::refused;
  std::byte* where = nullptr;
  if (p.payload_length != 0 &&
      ctx.keys().check(p.rkey, qp.domain, p.address, p.payload_length, Access::remote_write,
                       &where) != memory::Verdict::ok)
    return Outcome::refused;
  const uint64_t name = AssemblyTable::name_of(peer.index, p.message);
  Assembly* assembly = nullptr;
  bool last = imm;
  if (imm && !whole) {
    why = SrdReason::invalid;
    if (p.length == 0 || p.payload_length > p.length) return Outcome::refused;
    assembly = ctx.assemblies.find(name);
    const bool full = peer.rx.assemblies >= AssemblyTable::kMostPerPeer;
    why = SrdReason::busy;
    if (assembly == nullptr && (full || !ctx.assemblies.provide())) return Outcome::refused;
    why = SrdReason::invalid;
    if (assembly != nullptr && (assembly->qp != qp.number || assembly->length != p.length))
      return Outcome::refused;
    const uint32_t received = assembly != nullptr ? assembly->received : 0;
    last = received + p.payload_length >= p.length;
  }
  if (last && available_receives(peer, qp) == 0) {
    why = join_rnr_queue(peer, qp);
    return Outcome::refused;
  }
  if (p.payload_length != 0) {
    const Outcome copied = copy_payload(ctx, where, a, 0, p.payload_length, why);
    if (copied != Outcome::executed) return copied;
  }
  if (imm && !whole && assembly == nullptr) {
    assembly = ctx.assemblies.insert(name);
    WEFT_DCHECK(assembly != nullptr);
    assembly->receive = Slots::kNone;
    assembly->qp = qp.number;
    assembly->length = p.length;
    ++peer.rx.assemblies;
  }
  if (assembly != nullptr) assembly->received += p.payload_length;
  if (!last) return Outcome::executed;
  if (assembly != nullptr) {
    WEFT_DCHECK(peer.rx.assemblies > 0);
    ctx.assemblies.remove(assembly);
    --peer.rx.assemblies;
  }
  const uint32_t slot = qp.receives.pop();
  on_receive_taken(ctx, peer, qp, p.detail != 0);
  complete_receive(ctx, peer, qp, slot, a, p.length);
  return Outcome::executed;
}

void return_receive(ReceiveContext& ctx, Assembly& assembly) noexcept {
  QueuePair* const qp = ctx.find_qp(assembly.qp);
  if (qp == nullptr || assembly.receive == Slots::kNone) return;
  qp->receives.push_front(assembly.receive);
  schedule_ready(ctx, *qp);
}

bool discard_assembly(ReceiveContext& ctx, Peer& peer, uint32_t message) noexcept {
  Assembly* const assembly = ctx.assemblies.find(AssemblyTable::name_of(peer.index, message));
  if (assembly == nullptr) return false;
  return_receive(ctx, *assembly);
  WEFT_DCHECK(peer.rx.assemblies > 0);
  ctx.assemblies.remove(assembly);
  --peer.rx.assemblies;
  return true;
}

}  // namespace weft::srd
