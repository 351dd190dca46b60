// SPDX-License-Identifier: BSD-3-Clause
// See peers.hpp.
#include "lib/adapters/fi/rdm/peers.hpp"

#include <algorithm>
#include <cstring>

namespace weft::fi {

size_t Peers::Hash::operator()(const std::pair<Gid, uint32_t>& key) const noexcept {
  uint64_t halves[2];
  std::memcpy(halves, key.first.bytes.data(), sizeof halves);
  uint64_t h = (halves[0] * 0x9E3779B97F4A7C15 ^ halves[1]) + key.second;
  h = (h ^ h >> 33) * 0xFF51AFD7ED558CCD;
  return h ^ h >> 33;
}

message::Peer Peers::add(const Name& name) {
  const auto peer = static_cast<message::Peer>(peers_.size());
  peers_.push_back({.name = name,
                    .number = FI_ADDR_NOTAVAIL,
                    .handle = AddressHandle({.destination = name.gid})});
  if (name.queue.value != 0) by_queue_[{name.gid, name.queue.value}] = peer;
  return peer;
}

// The address vector has changed: numbers may stand for other names.
void Peers::refresh(Av& av) {
  const uint64_t changes = av.changes();
  if (changes == changes_) return;
  changes_ = changes;
  std::fill(by_number_.begin(), by_number_.end(), kNone);
  for (RdmPeer& peer : peers_) peer.number = FI_ADDR_NOTAVAIL;
  for (message::Peer peer = 0; peer < peers_.size(); ++peer) {
    const auto number = av.find(peers_[peer].name.gid, peers_[peer].name.queue);
    if (!number) continue;
    peers_[peer].number = *number;
    if (*number >= by_number_.size()) by_number_.resize(*number + 1, kNone);
    by_number_[*number] = peer;
  }
}

RdmPeer* Peers::find(Av& av, fi_addr_t number, message::Peer& out) {
  refresh(av);
  if (number < by_number_.size() && by_number_[number] != kNone) {
    out = by_number_[number];
    return &peers_[out];
  }
  const auto name = av.at(number);
  if (!name) return nullptr;
  const auto known = by_queue_.find({name->gid, name->queue.value});
  out = known != by_queue_.end() ? known->second : add(*name);
  if (number >= by_number_.size()) by_number_.resize(number + 1, kNone);
  by_number_[number] = out;
  peers_[out].number = number;
  return &peers_[out];
}

message::Peer Peers::sender(Av* av, const Gid& gid, QpNum queue) {
  const auto known = by_queue_.find({gid, queue.value});
  if (known != by_queue_.end()) return known->second;
  const message::Peer peer = add({.gid = gid, .port = 0, .queue = queue});
  if (av != nullptr) number_of(av, peer);
  return peer;
}

fi_addr_t Peers::number_of(Av* av, message::Peer peer) {
  if (av == nullptr) return FI_ADDR_NOTAVAIL;
  refresh(*av);
  RdmPeer& known = peers_[peer];
  if (known.number == FI_ADDR_NOTAVAIL)
    if (const auto number = av->find(known.name.gid, known.name.queue)) {
      known.number = *number;
      if (*number >= by_number_.size()) by_number_.resize(*number + 1, kNone);
      by_number_[*number] = peer;
    }
  return known.number;
}

void Peers::resolved(message::Peer peer, const Gid& gid, QpNum queue) {
  RdmPeer& known = peers_[peer];
  if (known.is_resolved()) return;
  known.name.gid = gid;
  known.name.queue = queue;
  known.handle = AddressHandle({.destination = gid});
  by_queue_[{gid, queue.value}] = peer;
}

}  // namespace weft::fi
