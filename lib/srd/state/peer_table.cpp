// SPDX-License-Identifier: BSD-3-Clause
// See peer_table.hpp.
#include "lib/srd/state/peer_table.hpp"

#include <cstring>
#include <utility>

#include "lib/base/check.hpp"

namespace weft::srd {

namespace {

// Addresses of one network differ in their last bytes, which must be the low ones of a number: a
// product carries differences upwards only.
uint32_t hash_of(const Gid& address, uint32_t qpn_prefix) noexcept {
  uint64_t words[2];
  std::memcpy(words, address.bytes.data(), sizeof words);
  const uint64_t low = __builtin_bswap64(words[1]);
  const uint64_t mixed = (words[0] ^ (low + qpn_prefix)) * 0x9E3779B97F4A7C15u;
  return static_cast<uint32_t>((mixed ^ low) * 0x9E3779B97F4A7C15u >> 32);
}

}  // namespace

Peer* PeerTable::find(const Gid& address, uint32_t qpn_prefix) noexcept {
  if (last_ != nullptr && last_->address == address && last_->qpn_prefix == qpn_prefix)
    return last_;
  const size_t mask = slots_.size() - 1;
  const uint32_t hash = hash_of(address, qpn_prefix);
  for (size_t at = hash & mask; slots_[at].peer != nullptr; at = (at + 1) & mask) {
    const auto& [peer, its_hash] = slots_[at];
    if (its_hash == hash && peer->address == address && peer->qpn_prefix == qpn_prefix)
      return last_ = peer;
  }
  return nullptr;
}

void PeerTable::place(Slot slot) noexcept {
  const size_t mask = slots_.size() - 1;
  size_t at = slot.hash & mask;
  while (slots_[at].peer != nullptr) at = (at + 1) & mask;
  slots_[at] = slot;
}

void PeerTable::add_place() {
  const size_t count = peers_.size() + 1;
  if (count * 2 > slots_.size()) {
    std::vector<Slot> slots(slots_.size() * 2);
    std::swap(slots, slots_);
    for (const Slot& slot : slots)
      if (slot.peer != nullptr) place(slot);
  }
  peers_.emplace_back();
  WEFT_DCHECK(peers_.size() * 2 <= slots_.size());
}

Peer* PeerTable::insert(uint32_t index, std::unique_ptr<Peer> peer) noexcept {
  WEFT_DCHECK(index < peers_.size() && peers_[index] == nullptr);
  WEFT_DCHECK(find(peer->address, peer->qpn_prefix) == nullptr);
  peer->index = index;
  peers_[index] = std::move(peer);
  Peer* const inserted = peers_[index].get();
  place({inserted, hash_of(inserted->address, inserted->qpn_prefix)});
  return last_ = inserted;
}

void PeerTable::remove(uint32_t index) noexcept {
  WEFT_DCHECK(index < peers_.size() && peers_[index] != nullptr);
  const Peer& peer = *peers_[index];
  WEFT_DCHECK(!peer.active.listed && !peer.ack_link.listed && !peer.timer.armed());
  if (last_ == &peer) last_ = nullptr;
  const size_t mask = slots_.size() - 1;
  size_t hole = hash_of(peer.address, peer.qpn_prefix) & mask;
  while (slots_[hole].peer != &peer) hole = (hole + 1) & mask;
  for (size_t at = (hole + 1) & mask; slots_[at].peer != nullptr; at = (at + 1) & mask) {
    const size_t home = slots_[at].hash & mask;
    if (((at - home) & mask) < ((at - hole) & mask)) continue;
    slots_[hole] = slots_[at];
    hole = at;
  }
  slots_[hole] = {};
  peers_[index].reset();
}

}  // namespace weft::srd
