// SPDX-License-Identifier: BSD-3-Clause
// Peers: found by address and endpoint, made when first heard of or sent to, and forgotten when
// there are as many as may be and one has been at rest for long.
//
// A forgotten stream must not be heard again: its packets may still be in the network. Only the
// newest epoch of all forgotten ones is kept, and whoever is unknown and names an epoch up to that
// is asked for a new stream. A sender that has been at rest for a while begins a new one by itself,
// so it is never asked in vain: receivers forget later than senders renew.
#include <cstring>

#include "lib/engine/srd/engine.hpp"

namespace weft::engine::srd {

namespace {

constexpr Duration kRenewAfter = Duration::from_s(1);
constexpr Duration kForgetAfter = Duration::from_s(2);
constexpr uint32_t kMostLookedAt = 256;  // peers, in one search

uint32_t hash_of(const Gid& address, uint32_t block) noexcept {
  uint64_t words[2];
  std::memcpy(words, address.bytes.data(), sizeof words);
  const uint64_t mixed = (words[0] ^ (words[1] + block)) * 0x9E3779B97F4A7C15u;
  return static_cast<uint32_t>((mixed ^ words[1]) * 0x9E3779B97F4A7C15u >> 32);
}

// Nothing is on its way or owed in either direction.
bool at_rest(const Peer& peer) noexcept {
  const Receiver& rx = peer.rx;
  return peer.tx.all == nullptr && peer.tx.una == peer.tx.next && rx.assemblies == 0 &&
         rx.answers == 0 && !rx.ack_pending && !peer.active.listed && !peer.ack_line.listed &&
         (rx.order == nullptr || rx.order->bound.missing_before(rx.order->bound.next() + 63) == 63);
}

}  // namespace

size_t Engine::home_of(const Peer& peer) const noexcept {
  return hash_of(peer.address, peer.block) & (peer_table_.size() - 1);
}

Peer* Engine::find_peer(const Gid& address, uint32_t block) noexcept {
  if (last_peer_ != nullptr && last_peer_->address == address && last_peer_->block == block)
    return last_peer_;
  const size_t mask = peer_table_.size() - 1;
  for (size_t at = hash_of(address, block) & mask; peer_table_[at] != 0; at = (at + 1) & mask) {
    Peer* const peer = peers_[peer_table_[at] - 1].get();
    if (peer->address == address && peer->block == block) return last_peer_ = peer;
  }
  return nullptr;
}

void Engine::enter(const Peer& peer) noexcept {
  size_t at = home_of(peer);
  while (peer_table_[at] != 0) at = (at + 1) & (peer_table_.size() - 1);
  peer_table_[at] = peer.index + 1;
}

// Null when there are as many as may be, and all are in use.
Peer* Engine::add_peer(const Gid& address, uint32_t block) {
  auto index = static_cast<uint32_t>(peers_.size());
  if (index >= config_.max_peers) {
    index = evict();
    if (index == PathSet::kNone) return nullptr;
  } else {
    peers_.emplace_back();
    if (peers_.size() * 2 > peer_table_.size()) {
      peer_table_.assign(peer_table_.size() * 2, 0);
      for (const auto& peer : peers_)
        if (peer != nullptr) enter(*peer);
    }
  }
  std::unique_ptr<Peer> peer(new Peer);
  peer->address = address;
  peer->block = block;
  peer->index = index;
  peer->timer.owner = peer.get();
  peer->used_at = now_;
  peers_[index] = std::move(peer);
  enter(*peers_[index]);
  return last_peer_ = peers_[index].get();
}

// The place of a peer that was at rest for long and is forgotten now, or kNone.
uint32_t Engine::evict() noexcept {
  for (uint32_t looked = 0; looked < kMostLookedAt && looked < peers_.size(); ++looked) {
    const uint32_t index = oldest_hand_++ % static_cast<uint32_t>(peers_.size());
    const Peer& peer = *peers_[index];
    if (now_ - peer.used_at < kForgetAfter || !at_rest(peer)) continue;
    forget(index);
    return index;
  }
  return PathSet::kNone;
}

void Engine::forget(uint32_t index) noexcept {
  Peer& peer = *peers_[index];
  count(Count::peers_forgotten);
  if (peer.rx.known) retire(peer.rx.epoch);
  end_credit(peer.rx);
  end_order(peer.rx);
  drop_flight(peer);
  if (peer.timer.armed()) wheel_.remove(peer.timer);
  if (last_peer_ == &peer) last_peer_ = nullptr;
  const size_t mask = peer_table_.size() - 1;
  size_t hole = home_of(peer);
  while (peer_table_[hole] != index + 1) hole = (hole + 1) & mask;
  for (size_t at = (hole + 1) & mask; peer_table_[at] != 0; at = (at + 1) & mask) {
    const size_t home = home_of(*peers_[peer_table_[at] - 1]);
    if (((at - home) & mask) < ((at - hole) & mask)) continue;
    peer_table_[hole] = peer_table_[at];
    hole = at;
  }
  peer_table_[hole] = 0;
  peers_[index].reset();
}

void Engine::retire(uint32_t epoch) noexcept {
  if (retired_ == 0 || static_cast<int32_t>(epoch - retired_) > 0) retired_ = epoch;
}

// A stream that was at rest for so long that the peer may soon forget it begins anew.
void Engine::renew(Peer& peer, Instant now) noexcept {
  Sender& tx = peer.tx;
  const bool rested = tx.epoch != 0 && tx.una == tx.next && now - peer.used_at > kRenewAfter;
  peer.used_at = now;
  if (!rested) return;
  for (const Message* m = tx.all; m != nullptr; m = m->next_all)
    if (m->cursor != 0 || m->state == Message::State::sent) return;
  tx.confirmed = false;  // of what goes now, nothing has gone before
  restart_stream(peer, tx.epoch + 1, tx.incarnation);
}

}  // namespace weft::engine::srd
