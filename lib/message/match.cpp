// SPDX-License-Identifier: BSD-3-Clause
// See match.hpp.
#include "lib/message/match.hpp"

namespace weft::message {
namespace {

// The finalizer of MurmurHash3 over the parts of the key.
uint64_t hash(bool tagged, Peer peer, uint64_t tag) noexcept {
  uint64_t h = tag * 0x9E3779B97F4A7C15 ^ (uint64_t{peer} << 1 | (tagged ? 1 : 0));
  h = (h ^ h >> 33) * 0xFF51AFD7ED558CCD;
  h = (h ^ h >> 33) * 0xC4CEB9FE1A85EC53;
  return h ^ h >> 33;
}

uint64_t hash_of_posted(const Posted& p) noexcept {
  return hash(p.pattern.tagged, p.pattern.peer, p.pattern.tag);
}
uint64_t hash_by_peer(const Waiting& w) noexcept {
  return hash(w.envelope.tagged, w.envelope.peer, w.envelope.tag);
}
uint64_t hash_by_tag(const Waiting& w) noexcept {
  return hash(w.envelope.tagged, kAnyPeer, w.envelope.tag);
}

template <class T, int N, class Predicate>
T* first_in(const List<T, N>& list, Predicate predicate) noexcept {
  for (T* item = list.front(); item != nullptr; item = list.after(item))
    if (predicate(*item)) return item;
  return nullptr;
}

Posted* earlier(Posted* a, Posted* b) noexcept {
  if (a == nullptr || b == nullptr) return a != nullptr ? a : b;
  return a->order < b->order ? a : b;
}

}  // namespace

void PostedQueue::insert(Posted* receive) noexcept {
  receive->order = next_order_++;
  all_.push_back(receive);
  if (receive->pattern.peer != kAnyPeer) ++named_;
  if (receive->pattern.ignore == 0)
    exact_.insert(receive, hash_of_posted);
  else
    masked_.push_back(receive);
}

void PostedQueue::remove(Posted* receive) noexcept {
  List<Posted, 1>::remove(receive);
  WEFT_DCHECK(receive->pattern.peer == kAnyPeer || named_ > 0);
  if (receive->pattern.peer != kAnyPeer) --named_;
  if (receive->pattern.ignore == 0)
    exact_.remove(receive);
  else
    List<Posted, 0>::remove(receive);
}

Posted* PostedQueue::find(const Envelope& envelope) const noexcept {
  WEFT_DCHECK(envelope.peer != kAnyPeer && (envelope.tagged || envelope.tag == 0));
  const auto fits = [&](const Posted& p) { return matches(p.pattern, envelope); };
  const auto exact = [&](Peer peer) {
    return first_in(exact_.at(hash(envelope.tagged, peer, envelope.tag)),
                    [&](const Posted& p) { return p.pattern.peer == peer && fits(p); });
  };
  return earlier(earlier(exact(envelope.peer), exact(kAnyPeer)), first_in(masked_, fits));
}

void WaitingQueue::insert(Waiting* message) noexcept {
  WEFT_DCHECK(message->envelope.peer != kAnyPeer);
  all_.push_back(message);
  by_peer_.insert(message, hash_by_peer);
  by_tag_.insert(message, hash_by_tag);
}

void WaitingQueue::remove(Waiting* message) noexcept {
  List<Waiting, 0>::remove(message);
  by_peer_.remove(message);
  by_tag_.remove(message);
}

Waiting* WaitingQueue::find(const Pattern& pattern) const noexcept {
  if (all_.empty()) return nullptr;
  const auto fits = [&](const Waiting& w) { return matches(pattern, w.envelope); };
  if (pattern.ignore != 0) return first_in(all_, fits);
  const uint64_t h = hash(pattern.tagged, pattern.peer, pattern.tag);
  return pattern.peer == kAnyPeer ? first_in(by_tag_.at(h), fits) : first_in(by_peer_.at(h), fits);
}

}  // namespace weft::message
