// SPDX-License-Identifier: BSD-3-Clause
// See peers.hpp.
#include "lib/adapters/fi/rdm/peers.hpp"

#include <algorithm>
#include <cstring>

#include "lib/adapters/fi/rdm/limits.hpp"

namespace weft::fi {

size_t Peers::Hash::operator()(const std::pair<Gid, uint32_t>& key) const noexcept {
  uint64_t halves[2];
  std::memcpy(halves, key.first.bytes.data(), sizeof halves);
  uint64_t h = (halves[0] * 0x9E3779B97F4A7C15 ^ halves[1]) + key.second;
  h = (h ^ h >> 33) * 0xFF51AFD7ED558CCD;
  return h ^ h >> 33;
}

message::Peer Peers::add(const Name& name) {
  if (free_.empty()) {
    free_.reserve(peers_.size() + 1);  // for forget()
    peers_.emplace_back();
    free_.push_back(static_cast<message::Peer>(peers_.size() - 1));
  }
  const message::Peer peer = free_.back();
  free_.pop_back();
  peers_[peer] = {.name = name, .number = FI_ADDR_NOTAVAIL, .handle = handle_of(name.gid)};
  ++unknown_;
  if (name.queue.value != 0)
    by_queue_[{name.gid, name.queue.value}] = peer;
  else
    by_port_[{name.gid, name.port}] = peer;
  return peer;
}

void Peers::set_number(message::Peer peer, fi_addr_t number) {
  if (number >= by_number_.size()) by_number_.resize(number + 1, kNone);
  by_number_[number] = peer;
  if (!peers_[peer].is_unknown()) return;
  peers_[peer].number = number;
  --unknown_;
}

// The address vector has changed: numbers may stand for other names.
void Peers::refresh(Av& av) {
  const uint64_t changes = av.changes();
  if (changes == changes_) return;
  changes_ = changes;
  std::fill(by_number_.begin(), by_number_.end(), kNone);
  for (RdmPeer& peer : peers_) peer.number = FI_ADDR_NOTAVAIL;
  unknown_ = peers_.size() - free_.size();
  for (const auto& [key, peer] : by_queue_)
    if (const auto number = av.find(key.first, {key.second})) set_number(peer, *number);
  for (const auto& [key, peer] : by_port_)
    if (const auto number = av.find_port(key.first, static_cast<uint16_t>(key.second)))
      set_number(peer, *number);
}

RdmPeer* Peers::find(Av& av, fi_addr_t number, message::Peer& out) {
  refresh(av);
  if (number < by_number_.size() && by_number_[number] != kNone) {
    out = by_number_[number];
    return &peers_[out];
  }
  const auto name = av.at(number);
  if (!name) return nullptr;
  const bool has_queue = name->queue.value != 0;
  const ByKey& known = has_queue ? by_queue_ : by_port_;
  const auto at = known.find({name->gid, has_queue ? name->queue.value : name->port});
  out = at != known.end() ? at->second : add(*name);
  set_number(out, number);
  return &peers_[out];
}

std::optional<message::Peer> Peers::sender(Av& av, const Gid& gid, QpNum queue) {
  const auto known = by_queue_.find({gid, queue.value});
  if (known != by_queue_.end()) return known->second;
  if (unknown_ >= kMostUnknown && !av.find(gid, queue)) return {};
  const message::Peer peer = add({.gid = gid, .port = 0, .queue = queue});
  number_of(av, peer);
  return peer;
}

bool Peers::has_many_unknown(Av& av) {
  refresh(av);
  return unknown_ > kCrowd;
}

message::Peer Peers::next_unknown() noexcept {
  WEFT_CHECK(unknown_ > 0);
  do cursor_ = cursor_ + 1 < peers_.size() ? cursor_ + 1 : 0;
  while (!peers_[cursor_].is_unknown());
  return static_cast<message::Peer>(cursor_);
}

void Peers::forget(message::Peer peer) noexcept {
  const RdmPeer& known = peers_[peer];
  WEFT_CHECK(known.is_unknown() && known.outstanding == 0 && known.messages == 0);
  by_queue_.erase({known.name.gid, known.name.queue.value});
  std::erase_if(by_port_, [peer](const auto& entry) { return entry.second == peer; });
  by_cookie_.erase(known.cookie);
  peers_[peer] = {};
  peers_[peer].in_use = false;
  free_.push_back(peer);
  --unknown_;
}

fi_addr_t Peers::number_of(Av& av, message::Peer peer) {
  refresh(av);
  const RdmPeer& known = peers_[peer];
  if (known.number == FI_ADDR_NOTAVAIL)
    if (const auto number = av.find(known.name.gid, known.name.queue)) set_number(peer, *number);
  return known.number;
}

uint32_t Peers::question(message::Peer peer) {
  RdmPeer& known = peers_[peer];
  while (known.cookie == 0)
    if (const uint32_t cookie = random_.next32();
        cookie != 0 && by_cookie_.try_emplace(cookie, peer).second)
      known.cookie = cookie;
  return known.cookie;
}

void Peers::resolved(uint32_t cookie, const Gid& gid, QpNum queue) {
  const auto asked = by_cookie_.find(cookie);
  if (asked == by_cookie_.end() || queue.value == 0) return;
  const message::Peer peer = asked->second;
  RdmPeer& known = peers_[peer];
  const auto [at, is_new] = by_queue_.try_emplace({gid, queue.value}, peer);
  if (is_new) {
    known.name.gid = gid;
    known.name.queue = queue;
    known.handle = handle_of(gid);
  } else {  // it has sent messages, or was inserted with its queue pair number
    for (auto& entry : by_port_)
      if (entry.second == peer) entry.second = at->second;
    changes_ = kOutdated;
  }
  by_cookie_.erase(asked);
}

void Peers::lost(message::Peer peer) noexcept {
  peers_[peer].is_gone = true;
  if (std::erase_if(by_port_, [peer](const auto& entry) { return entry.second == peer; }) != 0)
    changes_ = kOutdated;
}

}  // namespace weft::fi
