// SPDX-License-Identifier: BSD-3-Clause
// What a fresh packet requests, executed at once: READs, atomics and responses here. A refused
// packet has changed nothing, except that payload of a WRITE or SEND may have been placed in part
// when a page was missing.
#include "lib/memory/guarded_access.hpp"
#include "lib/memory/guarded_copy.hpp"
#include "lib/srd/receive/receive.hpp"

namespace weft::srd {

using wire::SrdOpcode;
using wire::SrdReason;

namespace {

constexpr Duration kLivenessProbeAfter = Duration::from_ms(50);

// A response to the peer that is not queued yet, or null when there are too many.
Message* new_response(ReceiveContext& ctx, Peer& peer, const QueuePair& qp, const Arrival& a,
                      SrdOpcode kind) noexcept {
  if (peer.rx.responses >= Receiver::kMostResponses) return nullptr;
  Message* const m = ctx.messages.take_response();
  if (m == nullptr) return nullptr;
  ++peer.rx.responses;
  WEFT_DCHECK(m->qp == nullptr && m->unacked == 0);
  m->kind = kind;
  m->peer_message = a.packet.message;
  m->dest = a.packet.source;
  m->source = qp.number;
  m->local.domain = qp.domain;
  m->peer = &peer;
  return m;
}

Outcome execute_read(ReceiveContext& ctx, Peer& peer, QueuePair& qp, const Arrival& a,
                     SrdReason& why) noexcept {
  const wire::SrdPacket& p = a.packet;
  why = SrdReason::access;
  std::byte* where;
  if (!has(qp.access, Access::remote_read)) return Outcome::refused;
  if (p.length != 0 && ctx.keys().check(p.rkey, qp.domain, p.address, p.length, Access::remote_read,
                                        &where) != memory::Verdict::ok)
    return Outcome::refused;
  Message* const m = new_response(ctx, peer, qp, a, SrdOpcode::read_response);
  if (m == nullptr) {
    why = SrdReason::busy;
    return Outcome::refused;
  }
  m->target.address = p.address;
  m->target.rkey = p.rkey;
  m->length = p.length;
  add_message(ctx, *m);
  return Outcome::executed;
}

//= threat:A10 executed once, by the sequence number of its packet
Outcome execute_atomic(ReceiveContext& ctx, Peer& peer, QueuePair& qp, const Arrival& a,
                       SrdReason& why) noexcept {
  const wire::SrdPacket& p = a.packet;
  why = SrdReason::access;
  std::byte* where;
  if (!has(qp.access, Access::remote_atomic)) return Outcome::refused;
  if (ctx.keys().check(p.rkey, qp.domain, p.address, 8, Access::remote_atomic, &where) !=
      memory::Verdict::ok)
    return Outcome::refused;
  if (p.address % 8 != 0) {
    why = SrdReason::invalid;
    return Outcome::refused;
  }
  Message* const m = new_response(ctx, peer, qp, a, SrdOpcode::atomic_response);
  if (m == nullptr) {
    why = SrdReason::busy;
    return Outcome::refused;
  }
  const wire::SrdOperands& o = p.two_operands();
  const bool done = p.opcode == SrdOpcode::compare_swap
                        ? memory::compare_swap(where, o.add_or_compare, o.swap, &m->target.operand)
                        : memory::fetch_add(where, o.add_or_compare, &m->target.operand);
  if (!done) {
    WEFT_DCHECK(peer.rx.responses > 0);
    --peer.rx.responses;
    ctx.messages.give_response(*m);
    why = SrdReason::memory;
    return Outcome::refused;
  }
  add_message(ctx, *m);
  return Outcome::executed;
}

// A READ's bytes, an atomic's value, or the failure of a READ. Responses to requests that have
// ended are accepted and discarded.
Outcome execute_response(ReceiveContext& ctx, Peer& peer, const Arrival& a) noexcept {
  const wire::SrdPacket& p = a.packet;
  Message* const m = ctx.messages.find(p.message);
  if (m == nullptr || m->peer != &peer || !m->expects_response() || m->responded ||
      m->qp == nullptr || m->state == Message::State::cancelled) {
    ctx.count(Count::rx_stale_response);
    return Outcome::executed;
  }
  const bool read = m->kind == SrdOpcode::read_request;
  const bool fits = p.opcode == SrdOpcode::read_response && read && p.length == m->length &&
                    p.offset <= p.length && p.payload_length <= p.length - p.offset;
  const bool value = p.opcode == SrdOpcode::atomic_response && !read;
  SrdReason why = SrdReason::none;
  Outcome placed = Outcome::executed;
  if (p.opcode == SrdOpcode::failure) {
    m->status = Status::remote_access_error;
    m->refusal_reason = p.detail;
  } else if (fits) {
    placed =
        place_payload(ctx, m->local.sges, m->local.sge_count, m->local.domain, p.offset, a, why);
    if (placed == Outcome::dropped) return placed;
    m->received += p.payload_length;
  } else if (value) {
    const uint64_t original = p.value();
    wire::SrdPacket local = p;
    local.payload = reinterpret_cast<const std::byte*>(&original);
    local.payload_length = sizeof original;
    placed = place_payload(ctx, m->local.sges, m->local.sge_count, m->local.domain, 0,
                           {local, a.frame, a.now}, why);
  } else {
    ctx.count(Count::rx_bad_response);
    m->status = Status::bad_response;
  }
  if (placed == Outcome::refused) m->status = Status::local_protection_error;
  peer.tx.liveness_probe_at = a.now + kLivenessProbeAfter;
  if (m->status == Status::success && fits && m->received < m->length) return Outcome::executed;
  // The response implies that the request was executed.
  m->responded = true;
  if (m->unacked != 0 && peer.tx.flight != nullptr) {
    WEFT_DCHECK(m->unacked == 1 && (*peer.tx.flight)[m->first_sequence].message == m);
    on_packet_acked(ctx, peer, m->first_sequence, false);
    advance_una(peer.tx);
    ctx.activate(peer);
  }
  if (m->state == Message::State::sent && m->unacked == 0) finish_message(ctx, *m);
  return Outcome::executed;
}

}  // namespace

Outcome execute(ReceiveContext& ctx, Peer& peer, const Arrival& a, SrdReason& why) noexcept {
  const wire::SrdPacket& p = a.packet;
  switch (p.opcode) {
    case SrdOpcode::fill:
      return Outcome::executed;
    case SrdOpcode::abort:
      return discard_assembly(ctx, peer, p.message) || p.detail != 0 ? skip_order(ctx, peer, p)
                                                                     : Outcome::executed;
    case SrdOpcode::read_response:
    case SrdOpcode::atomic_response:
    case SrdOpcode::failure:
      return execute_response(ctx, peer, a);
    default:
      break;
  }
  const bool has_key = wire::has_remote(p.opcode) || wire::takes_receive(p.opcode, p.flags);
  if (has_key && peer.guesses.too_many(a.now)) {
    ctx.count(Count::rx_guesses_dropped);
    return Outcome::dropped;
  }
  QueuePair* const qp = ctx.find_qp(p.dest);
  if (qp == nullptr || !qp->can_receive()) {
    if (qp == nullptr) ctx.port().forget(p.dest);
    ctx.count(qp == nullptr ? Count::rx_unknown_qp : Count::rx_wrong_state);
    why = SrdReason::no_queue_pair;
    return Outcome::refused;
  }
  if (p.queue_key != qp->queue_key && wire::takes_receive(p.opcode, p.flags)) {
    ctx.count(Count::rx_bad_qkey);
    why = SrdReason::queue_key;
    return Outcome::refused;
  }
  switch (p.opcode) {
    case SrdOpcode::send:
      return execute_send(ctx, peer, *qp, a, why);
    case SrdOpcode::write:
      return execute_write(ctx, peer, *qp, a, why);
    case SrdOpcode::write_add:
      return execute_add(ctx, *qp, a, why);
    case SrdOpcode::read_request:
      return execute_read(ctx, peer, *qp, a, why);
    default:
      return execute_atomic(ctx, peer, *qp, a, why);
  }
}

}  // namespace weft::srd
