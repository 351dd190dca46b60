// SPDX-License-Identifier: BSD-3-Clause
// What is true of an endpoint between two calls of it. Always checked: tests call it after every
// event. See endpoint.hpp.
#include <algorithm>
#include <map>

#include "lib/message/endpoint.hpp"

namespace weft::message {

class Invariants {
 public:
  explicit Invariants(const Endpoint& endpoint) : e_(endpoint) {}
  void check() const;

 private:
  void check_sends(Peer number) const;
  void check_credits(Peer number) const;
  void check_receives() const;
  const Endpoint& e_;
};

void PostedQueue::check_invariants() const {
  size_t masked = 0, all = 0;
  uint64_t previous = 0;
  for (const Posted* at = all_.front(); at != nullptr; at = all_.after(at), ++all) {
    WEFT_CHECK(at->order < next_order_ && (all == 0 || at->order > previous));
    previous = at->order;
    if (at->pattern.ignore != 0) ++masked;
  }
  for (const Posted* at = masked_.front(); at != nullptr; at = masked_.after(at)) {
    WEFT_CHECK(at->pattern.ignore != 0 && masked > 0);
    --masked;
  }
  WEFT_CHECK(masked == 0);
  WEFT_CHECK(exact_.size() <= all);
}

void WaitingQueue::check_invariants() const {
  size_t all = 0;
  for (const Waiting* at = all_.front(); at != nullptr; at = all_.after(at)) ++all;
  WEFT_CHECK(by_peer_.size() == all && by_tag_.size() == all);
}

// The sends of a peer are announced, or wait in order; what waits is looked at again.
void Invariants::check_sends(Peer number) const {
  const PeerState& peer = *e_.peers_[number];
  size_t announced = 0;
  for (const auto* at = peer.announced.front(); at != nullptr; at = peer.announced.after(at)) {
    WEFT_CHECK(at->peer == number && at->transfer != 0 && !at->is_done);
    const auto known = e_.announced_.find(at->transfer);
    WEFT_CHECK(known != e_.announced_.end() && known->second == at);
    ++announced;
  }
  WEFT_CHECK(announced == peer.announced_count && announced <= kMaxAnnounced);
  WEFT_CHECK(peer.operations >= announced + peer.lost_count);
  for (const auto* at = peer.unsent.front(); at != nullptr; at = peer.unsent.after(at)) {
    WEFT_CHECK(at->peer == number && !at->is_sending && !at->is_done);
    WEFT_CHECK(!at->request.copies || at->copy || at->pieces.length == 0);
  }
  WEFT_CHECK(peer.unsent.empty() || peer.is_blocked);
  const auto blocked = std::count(e_.blocked_.begin(), e_.blocked_.end(), number);
  WEFT_CHECK(blocked == (peer.is_blocked ? 1 : 0));
}

// Each credit that a peer was granted is its own, or on its way back, or that of a message that
// waits here.
void Invariants::check_credits(Peer number) const {
  const PeerState& peer = *e_.peers_[number];
  uint32_t eager = 0, announced = 0;
  const auto count = [&](const WaitingMessage& message) {
    if (message.envelope.peer != number) return;
    ++(message.header.kind == Kind::eager ? eager : announced);
  };
  for (const auto* at = e_.waiting_.first(); at != nullptr; at = e_.waiting_.after(at))
    count(static_cast<const WaitingMessage&>(*at));
  for (const auto* at = e_.claimed_.front(); at != nullptr; at = e_.claimed_.after(at)) count(*at);
  WEFT_CHECK(peer.granted + peer.to_return + eager == kFirstCredits + peer.extra);
  WEFT_CHECK(peer.extra == 0 || peer.is_known);
  WEFT_CHECK(peer.waiting_announced >= announced && peer.waiting_announced <= kMaxAnnounced);
}

void Invariants::check_receives() const {
  std::map<Peer, size_t> named;
  e_.posted_.check_invariants();
  e_.waiting_.check_invariants();
  for (const Posted* at = e_.posted_.first(); at != nullptr; at = e_.posted_.after(at)) {
    const auto& receive = static_cast<const ReceiveOperation&>(*at);
    WEFT_CHECK(receive.is_posted && receive.used <= receive.pieces.length);
    if (receive.pattern.peer != kAnyPeer) ++named[receive.pattern.peer];
    WEFT_CHECK(receive.used == 0 || receive.pieces.length - receive.used >= receive.least_room);
    WEFT_CHECK(receive.least_room != 0 || (receive.used == 0 && receive.transfers == 0));
    WEFT_CHECK(e_.waiting_.find(receive.pattern) == nullptr);
  }
  for (const auto* at = e_.stalled_.front(); at != nullptr; at = e_.stalled_.after(at))
    WEFT_CHECK(at->receive->transfers > 0 && at->begun <= at->length);
  size_t all_named = 0;
  for (const auto& [peer, count] : named) {
    WEFT_CHECK(e_.peers_[peer]->named == count);
    all_named += count;
  }
  WEFT_CHECK(e_.posted_.named() == all_named);
}

void Invariants::check() const {
  uint32_t extra = 0;
  size_t announced = 0, operations = 0;
  for (Peer number = 0; number < e_.peers_.size(); ++number) {
    if (!e_.peers_[number]) continue;
    operations += e_.peers_[number]->operations;
    check_sends(number);
    check_credits(number);
    extra += e_.peers_[number]->extra;
    announced += e_.peers_[number]->announced_count;
  }
  WEFT_CHECK(extra == e_.extra_granted_ && extra <= e_.limits_.total_credits);
  WEFT_CHECK(announced == e_.announced_.size());
  WEFT_CHECK(e_.counters_.copied <= operations);
  check_receives();
}

void check_invariants(const Endpoint& endpoint) { Invariants(endpoint).check(); }

}  // namespace weft::message
