// SPDX-License-Identifier: BSD-3-Clause
// The timer of a peer's stream: RTO, tail loss probe, liveness probe, and when it fires next.
#include <algorithm>

#include "lib/srd/send/send.hpp"

namespace weft::srd {

namespace {

constexpr int kOtherPaths = 3;      // RTOs in a row until they are doubled
constexpr int kMostDoublings = 8;   // of the RTO
constexpr int64_t kLeastTries = 8;  // of a packet, before the peer counts as dead
constexpr Duration kLivenessProbeAfter = Duration::from_ms(50);

Duration base_rto(const SendContext& ctx, const Peer& peer) noexcept {
  const RttEstimate& rtt = peer.tx.rtt;
  if (!rtt.known()) return ctx.config.first_rto;
  return std::max(ctx.config.least_rto, rtt.smoothed + rtt.variation * 4);
}

// With backoff. The first few RTOs in a row may be due to the paths, and others are tried at once;
// then it is the peer or the whole network. But however long round trips were, a packet is sent
// several times before the peer counts as dead.
Duration current_rto(const SendContext& ctx, const Peer& peer) noexcept {
  const int doublings = std::clamp(peer.tx.recovery.backoff - kOtherPaths, 0, kMostDoublings);
  const Duration doubled = base_rto(ctx, peer) * (int64_t{1} << doublings);
  return std::min(doubled, Duration{ctx.config.dead_peer_timeout.ps / kLeastTries});
}

// When the oldest packet is retransmitted if nothing arrives until then. While no round trip is
// known, the whole first window may be lost: then one packet after the other, at growing intervals
// with jitter, so that senders that began together do not probe together.
Instant tail_probe_at(const SendContext& ctx, const Sender& tx) noexcept {
  const LossRecovery& r = tx.recovery;
  WEFT_DCHECK(!tx.flight->in_flight.empty());
  if (!tx.rtt.known()) {
    const Duration after =
        ctx.config.least_rto / 256 * ((256 + r.jitter) * int64_t{1} << r.tail_probes);
    return after < ctx.config.first_rto ? r.progress_at + after : Instant::never();
  }
  if (r.tail_probes != 0) return Instant::never();
  return std::max(tx.flight->at(tx.flight->in_flight.oldest).sent, r.progress_at) +
         std::max(ctx.config.least_rto, tx.rtt.smoothed * 2);
}

void on_rto_or_tail(SendContext& ctx, Peer& peer, Instant now) noexcept {
  Sender& tx = peer.tx;
  LossRecovery& recovery = tx.recovery;
  Flight& flight = *tx.flight;
  const Duration rto = current_rto(ctx, peer);
  const auto sequence_of = [&](uint16_t at) { return flight.sequence_at(at, tx.una); };
  bool any = false;
  while (!flight.in_flight.empty()) {
    const uint16_t at = flight.in_flight.oldest;
    if (now - flight.at(at).sent < rto) break;
    flight.paths.on_timeout(flight.at(at).path, now);
    mark_lost(ctx, peer, sequence_of(at),
              {.now = now, .reason = congestion::Loss::Reason::timeout});
    any = true;
  }
  if (any) {
    ctx.count(Count::timeouts);
    ask_for_peer(ctx, peer);
    // Packets that left one by one time out one by one: that is one RTO.
    if (now - recovery.backed_off_at < rto) return;
    recovery.backed_off_at = now;
    recovery.backoff =
        static_cast<uint8_t>(std::min(recovery.backoff + 1, kOtherPaths + kMostDoublings));
    return;
  }
  if (flight.in_flight.empty() || now < tail_probe_at(ctx, tx)) return;
  ++recovery.tail_probes;
  recovery.jitter = static_cast<uint8_t>(ctx.random().below(256));
  flight.flow.allow_one();  // grants of credit may be what was lost
  ctx.count(Count::tail_probes);
  ask_for_peer(ctx, peer);
  const uint16_t oldest = flight.in_flight.oldest;
  flight.paths.on_loss(flight.at(oldest).path, now);
  if (flight.at(oldest).counts()) flight.flow.forget(flight.at(oldest).length);
  mark_lost(ctx, peer, sequence_of(oldest));
}

// A fill: a peer that does not know the stream any more answers with a reset.
void send_liveness_probe(SendContext& ctx, Peer& peer, Instant now) noexcept {
  Sender& tx = peer.tx;
  WEFT_DCHECK(tx.una == tx.next && tx.probes_liveness());
  schedule_liveness_probe(ctx, peer, now);
  if (!begin_flight(ctx, peer, now)) return;
  Record& r = *tx.flight->begin(tx.una, tx.next);  // the first one needs no memory
  r.kind = Record::Kind::fill;
  r.state = Record::State::lost;
  tx.flight->append(tx.flight->lost, tx.next++);
  ctx.activate(peer);
}

}  // namespace

void schedule_liveness_probe(SendContext& ctx, Peer& peer, Instant now) noexcept {
  peer.tx.liveness_probe_at = now + std::max(kLivenessProbeAfter, base_rto(ctx, peer) * 8);
  ctx.arm(peer, peer.tx.liveness_probe_at);
}

TimerVerdict on_send_timer(SendContext& ctx, Peer& peer, Instant now) noexcept {
  Sender& tx = peer.tx;
  if (tx.rnr_waiting != 0) resume_rnr_waiters(ctx, peer, now);
  if (tx.flight != nullptr) {
    tx.flight->flow.on_deadline(now);
    if (tx.flight->in_flight.empty()) tx.flight->flow.allow_one();
  }
  if (tx.has_work()) ctx.activate(peer);
  const bool silent = now - tx.recovery.progress_at > ctx.config.dead_peer_timeout;
  if (tx.welcome.hellos != 0 && tx.incarnation() == 0 && !tx.queues.empty() && silent &&
      !is_stopped(ctx, peer, now)) {
    ctx.count(Count::peers_lost);
    return TimerVerdict::peer_dead;
  }
  if (tx.flight != nullptr && tx.una != tx.next) {
    if (silent && !is_stopped(ctx, peer, now)) {
      ctx.count(Count::peers_lost);
      return TimerVerdict::peer_dead;
    }
    on_rto_or_tail(ctx, peer, now);
    if (tx.flight != nullptr) detect_losses(ctx, peer, now);
  } else if (tx.probes_liveness() && now >= tx.liveness_probe_at) {
    send_liveness_probe(ctx, peer, now);
  }
  rearm_timer(ctx, peer, now);
  return TimerVerdict::ok;
}

void rearm_timer(SendContext& ctx, Peer& peer, Instant now) noexcept {
  Sender& tx = peer.tx;
  Instant next = peer.rx.ack_at > now ? peer.rx.ack_at : Instant::never();
  if (tx.flight != nullptr && !tx.flight->in_flight.empty()) {
    const Record& oldest = tx.flight->at(tx.flight->in_flight.oldest);
    next = std::min({next, oldest.sent + current_rto(ctx, peer), tail_probe_at(ctx, tx)});
    next = std::min(next, overtaken_at(tx, oldest));
  } else if (tx.flight != nullptr && tx.una != tx.next) {
    next = std::min(next, now + ctx.config.least_rto);  // all are lost and wait for transmit()
  } else if (tx.probes_liveness()) {
    next = std::min(next, tx.liveness_probe_at);
  }
  if (tx.flight != nullptr && tx.una != tx.next) next = std::min(next, tx.flight->flow.deadline());
  if (tx.incarnation() == 0) next = std::min(next, tx.welcome.hello_at);
  if (tx.rnr_waiting != 0) {
    for (const Message* m = tx.messages; m != nullptr; m = m->older)
      if (m->state == Message::State::rnr_wait) next = std::min(next, m->rnr.resume_at);
  }
  if (!next.is_never()) ctx.arm(peer, std::max(next, now + Duration::from_us(1)));
  WEFT_DCHECK(tx.una == tx.next || tx.flight == nullptr || peer.timer.armed());
}

}  // namespace weft::srd
