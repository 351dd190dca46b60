// SPDX-License-Identifier: BSD-3-Clause
// Streams that are replaced by new ones: after a reset by the peer, after a time without packets,
// when the peer is dead.
#include "lib/srd/send/send.hpp"

namespace weft::srd {

namespace {

constexpr Duration kRenewAfter = Duration::from_s(1);

// Drops what is in flight; the next packet begins a new stream, with at least this epoch.
void end_stream(SendContext& ctx, Peer& peer, uint32_t least_epoch) noexcept {
  Sender& tx = peer.tx;
  drop_flight(ctx, peer);
  restart_routes(ctx, peer);
  tx.una = tx.next = 0;
  tx.epoch = tx.incarnation = tx.oldest_epoch = 0;
  tx.confirmed = tx.idle_since_peer_stream = false;
  tx.recovery.tail_probes = 0;
  tx.recovery.backoff = 0;
  tx.recovery.duplicates = 0;
  tx.queues.clear();
  tx.credit_granted = 0;
  tx.ecn_marks = 0;
  tx.liveness_probe_at = Instant::never();
  peer.least_epoch = least_epoch != 0 ? least_epoch : 1;
}

// Outstanding messages go again in a new stream if no packet of the old one was ever executed;
// otherwise what was sent may or may not have been executed, and fails. If the process that
// requests the new stream is the one that sends to us (it was opened before its stream of requests
// began), what was sent since then reached no other process, so that goes again too; and responses
// do.
void restart_stream(SendContext& ctx, Peer& peer, uint32_t least_epoch, uint32_t incarnation,
                    uint32_t opened) noexcept {
  using State = Message::State;
  Sender& tx = peer.tx;
  const bool same_process = peer.rx.known && static_cast<int32_t>(opened - peer.rx.epoch) <= 0;
  const bool again = !tx.confirmed || (same_process && tx.idle_since_peer_stream);
  const uint32_t oldest_epoch = again ? tx.oldest_epoch : 0;
  Message* oldest = tx.messages;
  while (oldest != nullptr && oldest->older != nullptr) oldest = oldest->older;
  end_stream(ctx, peer, least_epoch);
  tx.incarnation = incarnation;
  tx.oldest_epoch = oldest_epoch;
  for (Message* m = oldest; m != nullptr;) {
    Message* const newer = m->newer;
    const bool untouched = m->state == State::queued && m->cursor == 0 && m->unacked == 0;
    m->unacked = 0;
    if (m->state == State::cancelled || m->state == State::aborting) {
      m->ordered = m->ordered && m->rnr.retry && m->qp != nullptr;
      tx.queues.assign_order(*m);
      finish_message(ctx, *m);
    } else if (m->state == State::rnr_wait) {
      tx.queues.assign_order(*m);
    } else if (m->is_response() ? same_process : untouched || again) {
      m->state = State::queued;
      m->cursor = m->received = 0;
      tx.queues.assign_order(*m);
      tx.queues.push(*m, ctx.mtu);
    } else {
      complete_request(ctx, *m, Status::remote_aborted);
      release_message(ctx, *m);
    }
    m = newer;
  }
  WEFT_DCHECK(tx.una == 0 && tx.next == 0 && tx.flight == nullptr && tx.epoch == 0);
  ctx.activate(peer);
}

}  // namespace

// The peer does not know our stream: it was restarted, never received a packet of it, or requires
// address validation.
void on_reset(SendContext& ctx, Peer& peer, const Arrival& arrival) noexcept {
  const wire::SrdPacket& p = arrival.packet;
  Sender& tx = peer.tx;
  if (p.epoch != tx.epoch || p.sequence < tx.una || p.sequence >= tx.next || p.incarnation == 0)
    return ctx.count(Count::rx_stale_response);
  ctx.count(Count::rx_resets);
  const uint32_t next_epoch = tx.epoch + 1;
  const bool later = p.message != 0 && static_cast<int32_t>(p.message - next_epoch) > 0;
  // Another process that knows a stream of ours: perhaps one that this one follows, of which a copy
  // of a packet was executed there.
  const bool other = tx.incarnation != 0 && tx.incarnation != p.incarnation;
  if (other && p.message != 0 && static_cast<int32_t>(p.message - tx.oldest_epoch) > 0)
    tx.confirmed = true;
  restart_stream(ctx, peer, later ? p.message : next_epoch, p.incarnation, p.opened);
}

void renew_stream(SendContext& ctx, Peer& peer, Instant now) noexcept {
  Sender& tx = peer.tx;
  const bool idle = tx.epoch != 0 && tx.una == tx.next && now - tx.used_at > kRenewAfter;
  peer.used_at = tx.used_at = now;
  if (!idle) return;
  for (const Message* m = tx.messages; m != nullptr; m = m->older)
    if (m->cursor != 0 || m->state == Message::State::sent) return;
  tx.confirmed = false;  // no packet of the outstanding messages was sent yet
  tx.oldest_epoch = 0;
  restart_stream(ctx, peer, tx.epoch + 1, tx.incarnation, peer.rx.epoch);  // the same process
}

void fail_messages(SendContext& ctx, Peer& peer, Status status) noexcept {
  Sender& tx = peer.tx;
  const bool reachable = tx.incarnation != 0;
  end_stream(ctx, peer, tx.epoch + 1);
  tx.rnr_waiting = 0;
  while (Message* m = tx.messages) {
    m->unacked = 0;
    m->refusal_reason = reachable;
    complete_request(ctx, *m, status);
    release_message(ctx, *m);
  }
  WEFT_DCHECK(tx.awaiting_response == 0 && tx.queues.adding == nullptr);
}

}  // namespace weft::srd
