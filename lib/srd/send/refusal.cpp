// SPDX-License-Identifier: BSD-3-Clause
// Packets that the receiver refused, and messages that wait until the peer has a receive (RNR).
#include <algorithm>

#include "lib/srd/send/send.hpp"

namespace weft::srd {

namespace {

constexpr int64_t kLeastBackoff = 40'000, kBackoffSpread = 80'000;  // ns: 40 to 120 us, doubled
constexpr int kMostDoublings = 13;                                  // about a second
constexpr int kQueuedDoublings = 12;  // where the receiver will send `ready`: a third of a second

Status status_of(wire::SrdReason reason) {
  switch (reason) {
    case wire::SrdReason::access:
      return Status::remote_access_error;
    case wire::SrdReason::memory:
      return Status::remote_operation_error;
    case wire::SrdReason::no_receive:
    case wire::SrdReason::busy:
      return Status::rnr_retry_exceeded;
    default:
      return Status::remote_invalid_request;
  }
}

Duration rnr_backoff(SendContext& ctx, int doublings) noexcept {
  const int64_t ns = kLeastBackoff + ctx.random().below(kBackoffSpread);
  return Duration::from_ns(ns << std::min(doublings, kMostDoublings));
}

bool has_older_rnr_waiter(const Message& m) noexcept {
  for (const Message* older = m.older; older != nullptr; older = older->older)
    if (older->dest == m.dest && older->consumes_receive() && older->awaits_receive()) return true;
  return false;
}

void resume_message(SendContext& ctx, Message& m) noexcept {
  WEFT_DCHECK(m.state == Message::State::rnr_wait && m.peer->tx.rnr_waiting > 0);
  WEFT_DCHECK(m.cursor == 0 && m.unacked == 0);
  --m.peer->tx.rnr_waiting;
  m.state = Message::State::queued;
  m.peer->tx.queues.quick(m).push(m);
  ctx.activate(*m.peer);
}

}  // namespace

//= threat:A20 each refusal doubles the time that the sender waits, with jitter
void on_refusal(SendContext& ctx, Peer& peer, const Arrival& arrival) noexcept {
  const wire::SrdPacket& p = arrival.packet;
  Sender& tx = peer.tx;
  if (!names_incarnation(tx, p)) return ctx.count(Count::rx_other_incarnation);
  if (p.epoch != tx.epoch || tx.flight == nullptr) return ctx.count(Count::rx_stale_response);
  if (p.sequence < tx.una || p.sequence >= tx.next) return ctx.count(Count::rx_stale_response);
  Record& r = (*tx.flight)[p.sequence];
  Message* const m = r.message;
  if (r.state == Record::State::acked || r.kind != Record::Kind::data || m == nullptr)
    return ctx.count(Count::rx_stale_response);
  WEFT_DCHECK(m->peer == &peer && m->unacked > 0);
  ctx.count(Count::rx_naks);
  tx.recovery.progress_at = arrival.now;
  const auto reason = static_cast<wire::SrdReason>(p.detail);
  m->refusal_reason = p.detail;
  const bool busy = reason == wire::SrdReason::busy;  // also of a copy of what was refused
  const bool later = busy || reason == wire::SrdReason::no_receive;
  const uint8_t limit = m->qp != nullptr ? m->qp->rnr_retry : 7;
  if (later) ctx.count(Count::rx_rnr_naks);
  if (later && (busy || limit == 7 || m->rnr.tries < limit)) {
    m->rnr.resume_at = arrival.now + rnr_backoff(ctx, m->rnr.tries + (busy ? 0 : kQueuedDoublings));
    m->rnr.tries = static_cast<uint8_t>(std::min(m->rnr.tries + 1, 255));
    m->rnr.retry = true;
  } else {
    m->status = status_of(reason);
    if (later) ctx.count(Count::rnr_exceeded);
  }
  cancel_message(ctx, *m);
}

// The oldest message that waits for a receive of that queue pair resumes at once. One whose packets
// are still being filled (message_end.cpp) resumes when they are.
void on_ready(SendContext& ctx, Peer& peer, const Arrival& arrival) noexcept {
  const wire::SrdPacket& p = arrival.packet;
  if (!names_incarnation(peer.tx, p)) return ctx.count(Count::rx_other_incarnation);
  if (p.epoch != peer.tx.epoch) return ctx.count(Count::rx_stale_response);
  ctx.count(Count::rx_calls);
  Message* oldest = nullptr;
  for (Message* m = peer.tx.messages; m != nullptr; m = m->older)
    if (m->dest == p.source && m->consumes_receive() && m->awaits_receive() &&
        m->rnr.resume_at > arrival.now)
      oldest = m;
  if (oldest == nullptr) return;
  oldest->rnr.resume_at = arrival.now;
  if (oldest->state == Message::State::rnr_wait) resume_message(ctx, *oldest);
}

// Of those that wait for a receive of the same queue pair only the oldest retries without a
// notification; the receiver queues its peer once for all of them. //= threat:A20
void resume_rnr_waiters(SendContext& ctx, Peer& peer, Instant now) noexcept {
  for (Message* m = peer.tx.messages; m != nullptr; m = m->older) {
    if (m->state != Message::State::rnr_wait || m->rnr.resume_at > now) continue;
    if (m->consumes_receive() && has_older_rnr_waiter(*m))
      m->rnr.resume_at = now + rnr_backoff(ctx, kMostDoublings);
    else
      resume_message(ctx, *m);
  }
}

bool has_other_rnr_waiter(const Message& m) noexcept {
  if (m.rnr.tries == 0 && m.peer->tx.rnr_waiting == 0) return false;
  for (const Message* other = m.peer->tx.messages; other != nullptr; other = other->older)
    if (other != &m && other->dest == m.dest && other->consumes_receive() &&
        other->awaits_receive())
      return true;
  return false;
}

}  // namespace weft::srd
