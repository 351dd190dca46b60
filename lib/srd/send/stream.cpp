// SPDX-License-Identifier: BSD-3-Clause
// Streams that are replaced by new ones: after a reset by the peer, when another process takes its
// place, after a time without packets, when the peer is dead.
#include "lib/srd/send/send.hpp"

namespace weft::srd {

namespace {

constexpr Duration kRenewAfter = Duration::from_s(1);

// Drops what is in flight; the next packet begins a new stream.
void end_stream(SendContext& ctx, Peer& peer) noexcept {
  Sender& tx = peer.tx;
  drop_flight(ctx, peer);
  restart_routes(ctx, peer);
  tx.una = tx.next = tx.first = 0;
  tx.epoch = 0;
  tx.confirmed = false;
  tx.recovery.tail_probes = 0;
  tx.recovery.backoff = 0;
  tx.recovery.duplicates = 0;
  tx.queues.clear();
  for (Message* m = tx.messages; m != nullptr; m = m->older) m->request.begun = false;
  tx.credit_granted = 0;
  tx.ecn_marks = 0;
  tx.liveness_probe_at = Instant::never();
}

// Outstanding messages go again in a new stream if no packet of the old one was executed, as far as
// is known; otherwise what was sent may or may not have been executed, and fails. Responses always
// go again: they are for the process whose requests are accepted, whichever that is.
void restart_stream(SendContext& ctx, Peer& peer, bool perhaps_executed) noexcept {
  using State = Message::State;
  Sender& tx = peer.tx;
  Message* oldest = tx.messages;
  while (oldest != nullptr && oldest->older != nullptr) oldest = oldest->older;
  end_stream(ctx, peer);
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
    } else if (m->is_response() || untouched || !perhaps_executed) {
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

void lose_process(SendContext& ctx, Peer& peer) noexcept {
  peer.tx.welcome = {};
  restart_stream(ctx, peer, peer.tx.confirmed);
}

// The peer is another process, has forgotten us, or has given us up.
void on_reset(SendContext& ctx, Peer& peer, const Arrival& arrival) noexcept {
  const wire::SrdPacket& p = arrival.packet;
  Sender& tx = peer.tx;
  if (!names_incarnation(tx, p)) return ctx.count(Count::rx_other_incarnation);
  if (p.epoch != tx.epoch || p.sequence < tx.una || p.sequence >= tx.next)
    return ctx.count(Count::rx_stale_response);
  ctx.count(Count::rx_resets);
  tx.welcome = {};
  restart_stream(ctx, peer, tx.confirmed || p.detail != 0);
}

void renew_stream(SendContext& ctx, Peer& peer, Instant now) noexcept {
  Sender& tx = peer.tx;
  const bool idle = tx.epoch != 0 && tx.una == tx.next && now - tx.used_at > kRenewAfter;
  peer.used_at = tx.used_at = now;
  if (!idle) return;
  for (const Message* m = tx.messages; m != nullptr; m = m->older)
    if (m->cursor != 0 || m->state == Message::State::sent) return;
  restart_stream(ctx, peer, false);  // no packet of the outstanding messages was sent yet
}

void fail_messages(SendContext& ctx, Peer& peer, Status status, transport::PeerSign sign) noexcept {
  Sender& tx = peer.tx;
  const bool reachable = tx.incarnation() != 0;
  end_stream(ctx, peer);
  tx.welcome.hello_at = Instant::never();
  tx.welcome.hellos = 0;
  tx.rnr_waiting = 0;
  while (Message* m = tx.messages) {
    m->unacked = 0;
    m->refusal_reason = static_cast<uint8_t>(transport::detail_of(sign) | (reachable ? 1 : 0));
    complete_request(ctx, *m, status);
    release_message(ctx, *m);
  }
  WEFT_DCHECK(tx.awaiting_response == 0 && tx.queues.adding == nullptr);
}

}  // namespace weft::srd
