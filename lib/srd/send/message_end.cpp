// SPDX-License-Identifier: BSD-3-Clause
// Messages that end: because all of their packets were executed, because the receiver refused one,
// because a queue pair or a peer is gone.
//
// A sequence number that was used must be executed or filled before the stream can go on, so the
// packets of a message that ends early are retransmitted as fills. When none of it is in flight,
// none of its packets can be executed any more; only then the receiver is told to discard what it
// has of it, and only then it completes, or waits (rnr_wait) and is sent again under another id.
#include <algorithm>

#include "lib/srd/send/send.hpp"
#include "lib/transport/verbs_common.hpp"

namespace weft::srd {

namespace {

// In the quick queue, unless it is in the queue of those beyond the window.
void queue_abort(SendContext& ctx, Message& m) noexcept {
  WEFT_DCHECK(m.unacked == 0);
  m.state = Message::State::aborting;
  m.peer->tx.queues.quick(m).push(m);
  ctx.activate(*m.peer);
}

// The rest of a READ cannot be read: its requester gets a failure instead.
void become_failure(SendContext& ctx, Message& m) noexcept {
  m.kind = wire::SrdOpcode::failure;
  m.detail = static_cast<uint8_t>(wire::SrdReason::access);
  m.length = m.cursor = 0;
  m.status = Status::success;
  m.state = Message::State::queued;
  m.peer->tx.queues.quick(m).push(m);
  ctx.activate(*m.peer);
}

}  // namespace

void cancel_message(SendContext& ctx, Message& m) noexcept {
  using State = Message::State;
  WEFT_DCHECK(m.state != State::free);
  if (m.state == State::cancelled || m.state == State::aborting) return;
  Peer& peer = *m.peer;
  Sender& tx = peer.tx;
  const bool later = m.line.listed && tx.queues.beyond_window(m);
  if (m.state == State::queued && !later) tx.queues.remove(m);
  if (m.state == State::rnr_wait) {
    WEFT_DCHECK(tx.rnr_waiting > 0);
    --tx.rnr_waiting;
  }
  m.state = State::cancelled;
  for (uint64_t s = tx.una; s != tx.next && m.unacked != 0; ++s) {
    Record& r = (*tx.flight)[s];
    if (r.message != &m || r.state == Record::State::acked) continue;
    if (r.state == Record::State::in_flight) {
      if (r.counts()) tx.flight->flow.forget(r.length);
      mark_lost(ctx, peer, s);
    }
    r.kind = Record::Kind::fill;
    r.length = 0;
  }
  if (m.unacked == 0) on_all_acked(ctx, m);
}

void on_all_acked(SendContext& ctx, Message& m) noexcept {
  using State = Message::State;
  WEFT_DCHECK(m.unacked == 0);
  switch (m.state) {
    case State::sent:
      if (m.expects_response() && !m.responded) return;
      return finish_message(ctx, m);
    case State::cancelled:
      if (m.kind == wire::SrdOpcode::read_response && m.status != Status::success)
        return become_failure(ctx, m);
      // The receiver has to discard what it has; and the number of an ordered message that will
      // never arrive has to be skipped.
      if ((m.cursor == 0 || !m.needs_assembly(ctx.mtu)) && (!m.ordered || m.rnr.retry))
        return finish_message(ctx, m);
      return queue_abort(ctx, m);
    case State::aborting:
      return finish_message(ctx, m);
    default:
      return;
  }
}

void finish_message(SendContext& ctx, Message& m) noexcept {
  WEFT_DCHECK(m.unacked == 0);
  if (m.rnr.retry && m.qp != nullptr) {
    m.rnr.retry = false;
    m.state = Message::State::rnr_wait;
    m.cursor = m.received = 0;
    m.responded = false;
    ctx.messages.renew_id(m);
    ++m.peer->tx.rnr_waiting;
    return ctx.arm(*m.peer, m.rnr.resume_at);
  }
  if (m.rnr.retry && m.ordered) {  // its first abort announced that it will be sent again
    m.rnr.retry = false;
    return queue_abort(ctx, m);
  }
  complete_request(ctx, m, m.status);
  if (m.peer->tx.queues.end_order(m, ctx.mtu)) ctx.activate(*m.peer);
  release_message(ctx, m);
}

void complete_request(SendContext& ctx, Message& m, Status status) noexcept {
  if (m.qp == nullptr || (status == Status::success && !m.request.signaled)) return;
  WEFT_DCHECK(!m.is_response());
  Completion c;
  c.id = m.request.id;
  c.qp = m.qp->number;
  c.status = status;
  c.type = work_type(m.request.opcode);
  c.byte_count = m.length;
  c.vendor_error = status == Status::success ? 0 : m.refusal_reason;
  if (status != Status::success && status != Status::flushed) {
    const bool gone = status == Status::retry_exceeded;
    const transport::PeerSign sign =
        gone ? transport::sign_of(c.vendor_error) : transport::PeerSign::none;
    const bool silent = gone && sign == transport::PeerSign::none;
    ctx.note_failure({.status = status,
                      .qp = c.qp,
                      .peer = m.peer->address,
                      .peer_qp = m.dest,
                      .retries = status == Status::rnr_retry_exceeded ? m.rnr.tries : 0u,
                      .waited = silent ? ctx.config.dead_peer_timeout : Duration{},
                      .sign = sign});
  }
  ctx.complete(*m.qp, *m.qp->send_cq, c, false);
}

void detach_message(SendContext& ctx, Message& m) noexcept {
  WEFT_DCHECK(m.qp != nullptr);
  m.qp->sends.give(m.request.slot);
  ctx.messages.detach();
  m.qp = nullptr;
  m.rnr.retry = m.rnr.retry && m.state == Message::State::aborting;
}

void release_message(SendContext& ctx, Message& m) noexcept {
  Peer& peer = *m.peer;
  WEFT_DCHECK((m.newer == nullptr) == (peer.tx.messages == &m));
  (m.newer != nullptr ? m.newer->older : peer.tx.messages) = m.older;
  if (m.older != nullptr) m.older->newer = m.newer;
  if (m.expects_response()) {
    WEFT_DCHECK(peer.tx.awaiting_response > 0);
    --peer.tx.awaiting_response;
  }
  if (peer.tx.queues.end_read(m, ctx.mtu)) ctx.activate(peer);
  if (peer.tx.queues.end_add(m, ctx.mtu)) ctx.activate(peer);
  if (m.is_response()) {
    WEFT_DCHECK(peer.rx.responses > 0);
    --peer.rx.responses;
    return ctx.messages.give_response(m);
  }
  if (m.qp == nullptr) return ctx.messages.give_response(m);
  m.qp->sends.give(m.request.slot);
  ctx.messages.give_reserved(m);
}

}  // namespace weft::srd
