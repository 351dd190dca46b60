// SPDX-License-Identifier: BSD-3-Clause
// Peers: found by address and endpoint, made when first heard of or sent to, and forgotten when
// there are as many as may be and one has been at rest for long.
//
// A forgotten stream must not be heard again: its packets may still be in the network. Only the
// newest epoch of all forgotten ones is kept, and whoever is unknown and names an epoch up to that
// is asked for a new stream. A sender that has been at rest for a while begins a new one by itself,
// so it is never asked in vain: receivers forget later than senders renew. And later than senders
// lose patience: one that still waits for the acknowledgement of what was executed must not be
// told that nothing is known of it, or it would send that again.
#include <algorithm>
#include <cstring>

#include "lib/base/chacha20.hpp"
#include "lib/base/memory_permitting.hpp"
#include "lib/srd/engine.hpp"

namespace weft::srd {

namespace {

constexpr Duration kRenewAfter = Duration::from_s(1);
constexpr Duration kLeastPatience = Duration::from_s(5);
constexpr uint32_t kMostLookedAt = 256;  // peers, in one search

// Addresses of one network differ in their last bytes. Those must be the low ones of a number here:
// a product carries what differs upwards only.
uint32_t hash_of(const Gid& address, uint32_t block) noexcept {
  uint64_t words[2];
  std::memcpy(words, address.bytes.data(), sizeof words);
  const uint64_t low = __builtin_bswap64(words[1]);
  const uint64_t mixed = (words[0] ^ (low + block)) * 0x9E3779B97F4A7C15u;
  return static_cast<uint32_t>((mixed ^ low) * 0x9E3779B97F4A7C15u >> 32);
}

// Nothing is on its way or owed in either direction.
bool at_rest(const Peer& peer) noexcept {
  const Receiver& rx = peer.rx;
  return peer.tx.all == nullptr && peer.tx.una == peer.tx.next && rx.assemblies == 0 &&
         rx.answers == 0 && !rx.ack_pending && !peer.active.listed && !peer.ack_line.listed &&
         (rx.order == nullptr || rx.order->bound.missing_before(rx.order->bound.next() + 63) == 63);
}

}  // namespace

Peer* Engine::find_peer(const Gid& address, uint32_t block) noexcept {
  if (last_peer_ != nullptr && last_peer_->address == address && last_peer_->block == block)
    return last_peer_;
  const size_t mask = peer_table_.size() - 1;
  const uint32_t hash = hash_of(address, block);
  for (size_t at = hash & mask; peer_table_[at].peer != nullptr; at = (at + 1) & mask) {
    const auto& [peer, its_hash] = peer_table_[at];
    if (its_hash == hash && peer->address == address && peer->block == block)
      return last_peer_ = peer;
  }
  return nullptr;
}

void Engine::enter(PeerPlace place) noexcept {
  const size_t mask = peer_table_.size() - 1;
  size_t at = place.hash & mask;
  while (peer_table_[at].peer != nullptr) at = (at + 1) & mask;
  peer_table_[at] = place;
}

// Null when there are as many as may be, and all are in use; or when there is no memory.
Peer* Engine::add_peer(const Gid& address, uint32_t block) noexcept {
  std::unique_ptr<Peer> peer(new (std::nothrow) Peer);
  if (peer == nullptr) return nullptr;
  auto index = static_cast<uint32_t>(peers_.size());
  if (index >= config_.max_peers) {
    index = evict();
    if (index == PathSet::kNone) return nullptr;
  } else if (!base::memory_permitting([this] { make_place(); })) {
    return nullptr;
  }
  peer->address = address;
  peer->block = block;
  peer->index = index;
  peer->incarnation = incarnation_for(address, block);
  peer->timer.owner = peer.get();
  peer->used_at = now_;
  peers_[index] = std::move(peer);
  enter({peers_[index].get(), hash_of(address, block)});
  return last_peer_ = peers_[index].get();
}

// For one peer more.
void Engine::make_place() {
  const size_t count = peers_.size() + 1;
  if (count * 2 > peer_table_.size()) {
    std::vector<PeerPlace> places(peer_table_.size() * 2);
    std::swap(places, peer_table_);
    for (const PeerPlace& place : places)
      if (place.peer != nullptr) enter(place);
  }
  peers_.emplace_back();
}

// The place of a peer that was at rest for long and is forgotten now, or kNone.
uint32_t Engine::evict() noexcept {
  for (uint32_t looked = 0; looked < kMostLookedAt && looked < peers_.size(); ++looked) {
    const uint32_t index = oldest_hand_++ % static_cast<uint32_t>(peers_.size());
    const Peer& peer = *peers_[index];
    if (now_ - peer.used_at < forget_after() || !at_rest(peer)) continue;
    forget(index);
    return index;
  }
  return PathSet::kNone;
}

void Engine::forget(uint32_t index) noexcept {
  Peer& peer = *peers_[index];
  count(Count::peers_forgotten);
  if (peer.rx.known) retire(peer.rx.epoch);
  meet(peer);
  end_credit(peer.rx);
  end_order(peer.rx);
  leave_aliases(peer);
  drop_flight(peer);
  if (peer.timer.armed()) wheel_.remove(peer.timer);
  if (last_peer_ == &peer) last_peer_ = nullptr;
  const size_t mask = peer_table_.size() - 1;
  size_t hole = hash_of(peer.address, peer.block) & mask;
  while (peer_table_[hole].peer != &peer) hole = (hole + 1) & mask;
  for (size_t at = (hole + 1) & mask; peer_table_[at].peer != nullptr; at = (at + 1) & mask) {
    const size_t home = peer_table_[at].hash & mask;
    if (((at - home) & mask) < ((at - hole) & mask)) continue;
    peer_table_[hole] = peer_table_[at];
    hole = at;
  }
  peer_table_[hole] = {};
  peers_[index].reset();
}

Duration Engine::forget_after() const noexcept {
  return std::max(kLeastPatience, config_.patience) + Duration::from_s(1);
}

// No stranger any more.
void Engine::meet(Peer& peer) noexcept {
  strangers_ -= peer.stranger;
  peer.stranger = false;
}

uint32_t Engine::incarnation_for(const Gid& address, uint32_t block) const noexcept {
  uint32_t state[16] = {0x61707865, 0x3320646E, 0x79622D32, block};
  std::memcpy(&state[4], secret_, sizeof secret_);
  std::memcpy(&state[12], address.bytes.data(), 16);
  uint32_t out[16];
  base::chacha20_block(state, out);
  return out[0] != 0 ? out[0] : 1;
}

void Engine::retire(uint32_t epoch) noexcept {
  if (retired_ == 0 || static_cast<int32_t>(epoch - retired_) > 0) retired_ = epoch;
}

// A stream that was at rest for so long that the peer may soon forget it begins anew.
void Engine::renew(Peer& peer, Instant now) noexcept {
  Sender& tx = peer.tx;
  const bool rested = tx.epoch != 0 && tx.una == tx.next && now - tx.used_at > kRenewAfter;
  peer.used_at = tx.used_at = now;
  if (!rested) return;
  for (const Message* m = tx.all; m != nullptr; m = m->next_all)
    if (m->cursor != 0 || m->state == Message::State::sent) return;
  tx.confirmed = false;  // of what goes now, nothing has gone before
  tx.since = 0;
  restart_stream(peer, tx.epoch + 1, tx.incarnation, peer.rx.epoch);  // the same process
}

}  // namespace weft::srd
