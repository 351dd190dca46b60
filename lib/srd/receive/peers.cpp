// SPDX-License-Identifier: BSD-3-Clause
// Peers: made when a packet of theirs arrives or when a request is posted to them, and removed when
// there are as many as may be and one has been idle for long.
//
// A stream that was forgotten must not be accepted again: its packets may still be in the network.
// So peers are remembered longer than the incarnations that they were issued are fresh. A sender
// that has been idle for a while begins a new stream anyway, so receivers forget later than senders
// renew (send/stream.cpp). And later than senders give up: one that still waits for the
// acknowledgement of what was executed must not be told that nothing is known of it, or it would
// send that again.
#include <algorithm>
#include <new>

#include "lib/base/memory_permitting.hpp"
#include "lib/srd/receive/receive.hpp"

namespace weft::srd {

namespace {

constexpr Duration kLeastIdle = Duration::from_s(5);
static_assert(Incarnations::kFresh < kLeastIdle);
constexpr uint32_t kMostExamined = 256;  // peers, in one search

// Nothing is in flight, queued or half done in either direction.
bool is_idle(const Peer& peer) noexcept {
  const Receiver& rx = peer.rx;
  return peer.tx.messages == nullptr && peer.tx.una == peer.tx.next && rx.assemblies == 0 &&
         rx.responses == 0 && !rx.ack_pending && !peer.active.listed && !peer.ack_link.listed &&
         (rx.order == nullptr || rx.order->bound.missing_before(rx.order->bound.next() + 63) == 63);
}

void remove_peer(ReceiveContext& ctx, uint32_t index) noexcept {
  Peer& peer = ctx.peers[index];
  WEFT_DCHECK(is_idle(peer));
  ctx.count(Count::peers_forgotten);
  end_credit(ctx, peer.rx);
  end_ordered_receives(ctx, peer.rx);
  erase_aliases(ctx, peer);
  drop_flight(ctx, peer);
  if (peer.timer.armed()) ctx.wheel.remove(peer.timer);
  ctx.peers.remove(index);
}

// The place of an idle peer that was removed, or kNone.
uint32_t evict_idle_peer(ReceiveContext& ctx) noexcept {
  const Duration limit = std::max(kLeastIdle, ctx.config.dead_peer_timeout) + Duration::from_s(1);
  for (uint32_t looked = 0; looked < kMostExamined && looked < ctx.peers.size(); ++looked) {
    const uint32_t index = ctx.peers.next_to_examine();
    const Peer& peer = ctx.peers[index];
    if (ctx.now - peer.used_at < limit || !is_idle(peer)) continue;
    remove_peer(ctx, index);
    return index;
  }
  return PeerTable::kNone;
}

}  // namespace

Peer* add_peer(ReceiveContext& ctx, const Gid& address, uint32_t qpn_prefix) noexcept {
  std::unique_ptr<Peer> peer(new (std::nothrow) Peer);
  if (peer == nullptr) return nullptr;
  auto index = static_cast<uint32_t>(ctx.peers.size());
  if (index >= ctx.config.max_peers) {
    index = evict_idle_peer(ctx);
    if (index == PeerTable::kNone) return nullptr;
  } else if (!base::memory_permitting([&ctx] { ctx.peers.add_place(); })) {
    return nullptr;
  }
  peer->address = address;
  peer->qpn_prefix = qpn_prefix;
  peer->in_memory = ctx.port().reaches_in_memory(address, peer->endpoint());
  peer->timer.owner = peer.get();
  peer->used_at = ctx.now;
  return ctx.peers.insert(index, std::move(peer));
}

void fail_peer(ReceiveContext& ctx, Peer& peer, Status status, transport::PeerSign sign) noexcept {
  fail_messages(ctx, peer, status, sign);
  // Its requests will get no responses either; a reset makes it learn that.
  if (peer.introduced.incarnation != 0) end_introduction(ctx, peer);
}

}  // namespace weft::srd
