// SPDX-License-Identifier: BSD-3-Clause
// The packet side of the engine: receive, transmit, expire.
#include "lib/srd/engine.hpp"

#include <algorithm>

#include "lib/base/check.hpp"

namespace weft::srd {

namespace {

void on_peer_timer(ReceiveContext& ctx, Peer& peer, Instant now) noexcept {
  WEFT_DCHECK(!peer.timer.armed() && ctx.peers.get(peer.index) == &peer);
  // The delay of one that is queued already is enforced by send_due_acks().
  if (peer.rx.ack_at <= now && !peer.ack_link.listed) queue_ack(ctx, peer, now);
  if (on_send_timer(ctx, peer, now) == TimerVerdict::peer_dead)
    fail_peer(ctx, peer, Status::retry_exceeded, transport::PeerSign::none);
}

}  // namespace

Engine::Engine(Port& port, const Config& given, base::SecureRandom& random)
    : ReceiveContext(port, given, random) {}

Engine::~Engine() = default;

void Engine::receive(std::span<const Frame> frames, Instant at) noexcept {
  now = at;
  for (size_t i = 0; i < frames.size(); ++i) {
    if (i + 1 < frames.size()) __builtin_prefetch(frames[i + 1].bytes);
    receive_frame(*this, frames[i], at);
  }
  grant_credit(*this, at);
}

size_t Engine::transmit(std::span<TxFrame> frames, Instant at) noexcept {
  now = at;
  builder_.begin_burst(frames.first(std::min(frames.size(), frame_paths.burst())));
  frame_paths.begin_burst();
  bulk_posted_ = false;
  send_replies(*this);
  send_ready_packets(*this, at);
  // Before data: else an endpoint that sends all the time would not acknowledge, and its peers wait
  // for that.
  if (config.ack_piggyback_delay.ps == 0 || acks.first) send_acks(*this, at);
  // Each active peer once, then again while there is room.
  while (!active.empty() && has_room()) {
    Peer& peer = active.pop();
    const size_t before = builder_.count();
    send_to_peer(*this, peer, at);
    delay_ack_behind_data(*this, peer, builder_.count() - before);
  }
  send_due_acks(*this, at);
  acks.first = !has_room();
  ++acks.turn;
  counters_.add(Count::tx_bytes, builder_.bytes());
  counters_.add(Count::tx_packets, builder_.count());
  WEFT_DCHECK(builder_.count() <= frames.size());
  return builder_.count();
}

void Engine::expire(Instant at) noexcept {
  while (base::TimerNode* node = wheel.pop_expired(at))
    on_peer_timer(*this, *static_cast<PeerTimer*>(node)->owner, at);
  grant_credit(*this, at);
  expire_reservations(*this, at);
  next_deadline_ = std::min({wheel.next_deadline(), credit.grant_at, rnr.expires_at});
}

void Engine::lose_peer(const LostPeer& lost, Instant at) noexcept {
  now = at;
  for (const std::unique_ptr<Peer>& peer : peers) {
    if (peer == nullptr || peer->tx.messages == nullptr) continue;
    if (!lost.covers(peer->address, peer->endpoint(), peer->in_memory)) continue;
    count(Count::peers_lost);
    fail_peer(*this, *peer, Status::retry_exceeded, lost.sign);
  }
}

Credentials Engine::issue(const Gid& address, uint32_t prefix, Instant at) noexcept {
  const uint64_t stamp = incarnations.take_stamp(at);
  return {.incarnation = incarnations.issue(address, prefix, stamp),
          .stamp = stamp,
          .process = incarnations.process_for(address, prefix)};
}

bool Engine::accept(const Gid& address, uint32_t prefix, const Credentials& its,
                    Instant at) noexcept {
  now = at;
  Peer* peer = peers.find(address, prefix);
  if (peer == nullptr) peer = add_peer(*this, address, prefix);
  if (peer == nullptr) return false;
  if (peer->tx.incarnation() == 0)
    peer->tx.welcome = {.incarnation = its.incarnation,
                        .stamp = its.stamp,
                        .process = its.process,
                        .learned = incarnations.take_stamp(at)};
  return true;
}

bool Engine::flush_pending_ack(QueuePair&) noexcept {
  for (const std::unique_ptr<Peer>& peer : peers)
    if (peer != nullptr && !peer->rx.ack_at.is_never()) acks.queue.push(*peer);
  acks.first = true;
  return !acks.queue.empty() || !replies.empty();
}

std::vector<PathReport> Engine::path_reports(const Gid& address, QpNum number) {
  const Peer* const peer = peers.find(address, number.value >> 16);
  std::vector<PathReport> reports;
  if (peer == nullptr || peer->tx.flight == nullptr) return reports;
  for (uint32_t i = 0; i < peer->tx.flight->paths.count(); ++i) {
    reports.push_back(peer->tx.flight->paths.report(i));
    const Route route = route_of(*peer, i);
    reports.back().source_port = frame_paths.source_port(route.local, i);
    reports.back().source = frame_paths.addresses()[route.local];
    reports.back().destination = address_of(*peer, route.remote);
  }
  return reports;
}

}  // namespace weft::srd
