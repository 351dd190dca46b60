// SPDX-License-Identifier: BSD-3-Clause
// Receives for peers that wait for one (state/rnr_queue.hpp).
#include <algorithm>
#include <new>

#include "lib/srd/receive/receive.hpp"

namespace weft::srd {

namespace {
constexpr Duration kReservation = Duration::from_ms(2);  // of a receive, for a notified peer
}  // namespace

uint32_t available_receives(const Peer& peer, const QueuePair& qp) noexcept {
  const uint32_t all = qp.receives.size();
  if (qp.rnr_queue == nullptr) return all;
  const uint32_t reserved = qp.rnr_queue->reserved_for_others(peer.index);
  return all > reserved ? all - reserved : 0;
}

//= threat:A20 threat:A32 the reason says whether the sender is queued or has to retry
wire::SrdReason join_rnr_queue(const Peer& peer, QueuePair& qp) noexcept {
  if (qp.rnr_queue == nullptr) qp.rnr_queue.reset(new (std::nothrow) RnrQueue);
  if (qp.rnr_queue == nullptr) return wire::SrdReason::busy;
  return qp.rnr_queue->join({peer.index}) ? wire::SrdReason::no_receive : wire::SrdReason::busy;
}

void on_receive_taken(ReceiveContext& ctx, const Peer& peer, QueuePair& qp, bool more) noexcept {
  if (qp.rnr_queue == nullptr) return;
  qp.rnr_queue->use(peer.index);
  if (more) qp.rnr_queue->join({peer.index});
  schedule_ready(ctx, qp);
}

void schedule_ready(ReceiveContext& ctx, QueuePair& qp) noexcept {
  if (qp.rnr_queue == nullptr || qp.rnr_queue->empty()) return;
  if (qp.receives.size() > qp.rnr_queue->reservations()) ctx.rnr.ready.push(qp);
}

void send_ready_packets(ReceiveContext& ctx, Instant now) noexcept {
  while (!ctx.rnr.ready.empty() && ctx.has_room()) {
    QueuePair& qp = *ctx.rnr.ready.front();
    WEFT_DCHECK(qp.rnr_queue != nullptr);
    RnrQueue& queue = *qp.rnr_queue;
    if (queue.empty() || qp.receives.size() <= queue.reservations()) {
      ctx.rnr.ready.pop();
      continue;
    }
    const Peer& peer = ctx.peers[queue.reserve(now + kReservation)];
    ctx.rnr.reserving.push(qp);
    ctx.rnr.expires_at = std::min(ctx.rnr.expires_at, now + kReservation);
    ctx.schedule(ctx.rnr.expires_at);
    if (!peer.rx.known) continue;
    wire::SrdPacket p;
    p.opcode = wire::SrdOpcode::ready;
    p.dest = peer.endpoint();
    p.source = qp.number;
    p.epoch = peer.rx.epoch;
    p.incarnation = peer.introduced.incarnation;
    // On the route of the newest packet from it.
    const Route route = peer.rx.echo.route;
    const uint16_t source_port = ctx.frame_paths.source_port(
        route.local,
        static_cast<uint32_t>(ctx.random().below(ctx.frame_paths.ports_per_address())));
    const Path& path = ctx.path_to(peer, route, source_port, 0);
    std::byte* const at = ctx.builder().start(path, wire::srd_emit_length(p), 0);
    wire::srd_emit(at, p, 0);
    ctx.builder().finish();
    ctx.count(Count::tx_calls);
  }
}

void expire_reservations(ReceiveContext& ctx, Instant now) noexcept {
  if (ctx.rnr.expires_at > now) return;
  ctx.rnr.expires_at = Instant::never();
  base::Line<QueuePair, &QueuePair::reserving_link> still;
  while (!ctx.rnr.reserving.empty()) {
    QueuePair& qp = ctx.rnr.reserving.pop();
    qp.rnr_queue->expire(now);
    schedule_ready(ctx, qp);
    if (qp.rnr_queue->reservations() == 0) continue;
    WEFT_DCHECK(qp.rnr_queue->next_expiry() > now);
    ctx.rnr.expires_at = std::min(ctx.rnr.expires_at, qp.rnr_queue->next_expiry());
    still.push(qp);
  }
  ctx.rnr.reserving = still;
}

void end_rnr_queue(ReceiveContext& ctx, QueuePair& qp) noexcept {
  ctx.rnr.ready.remove(qp);
  ctx.rnr.reserving.remove(qp);
  qp.rnr_queue.reset();
}

}  // namespace weft::srd
