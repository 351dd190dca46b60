// SPDX-License-Identifier: BSD-3-Clause
// Ways over several addresses: who asks for them, who answers, and whose packets they bring.
//
// The sender of a stream asks on each way for itself, so what carries data has been seen to work
// and to end at the peer: the answer repeats a number that only who received the question can know.
// A question is believed when it names our incarnation, which only the peer can know; that is also
// what tells a peer's packets from another address of its, so a claimed address takes nothing from
// anybody.
#include "lib/srd/state/rails.hpp"

#include <algorithm>
#include <bit>
#include <new>

#include "lib/base/memory_permitting.hpp"
#include "lib/srd/engine.hpp"

namespace weft::srd {

namespace {
constexpr Duration kAskAgain = Duration::from_ms(1);  // the first time; then twice as long each
constexpr int kMostDoublings = 10;

bool newer(uint32_t a, uint32_t b) { return static_cast<int32_t>(a - b) > 0; }
}  // namespace

bool Rails::tells(std::span<const Gid> list) const {
  return std::equal(list.begin(), list.end(), further_.begin(), further_.begin() + further_count_);
}

void Rails::learn(std::span<const Gid> list) {
  further_count_ = static_cast<uint8_t>(std::min(list.size(), further_.size()));
  std::copy_n(list.begin(), further_count_, further_.begin());
}

bool Rails::leads_beyond_first() const {
  return std::any_of(ways_.begin(), ways_.begin() + joined_,
                     [](const Candidate& c) { return c.way.remote != 0; });
}

bool Rails::join(Way way) {
  for (Candidate& c : candidates()) {
    if (c.way != way) continue;
    std::swap(c, ways_[joined_++]);
    return true;
  }
  return false;
}

void Rails::restart(uint32_t locals, Instant now) {
  joined_ = 1;
  plan(locals, now);
}

void Rails::plan(uint32_t locals, Instant now) {
  count_ = joined_;
  const uint32_t remotes = further_count_ + 1u;
  Instant ask_at = now;
  for (uint32_t shift = 0; shift < remotes; ++shift, ask_at = ask_at + kAskAgain) {
    for (uint32_t l = 0; l < locals && count_ < kMostWays; ++l) {
      const Way way{static_cast<uint8_t>(l), static_cast<uint8_t>((l + shift) % remotes)};
      const auto end = ways_.begin() + joined_;
      if (std::any_of(ways_.begin(), end, [&](const Candidate& c) { return c.way == way; }))
        continue;
      ways_[count_++] = {way, 0, ask_at};
    }
  }
}

// ---- addresses

std::optional<uint8_t> Engine::local_of(const Gid& address) const noexcept {
  const auto at = std::find(addresses_.begin(), addresses_.end(), address);
  if (at == addresses_.end()) return std::nullopt;
  return static_cast<uint8_t>(at - addresses_.begin());
}

std::optional<uint8_t> Engine::remote_of(const Peer& peer, const Gid& address) const noexcept {
  if (peer.address == address) return uint8_t{0};
  if (peer.rails == nullptr) return std::nullopt;
  const std::span<const Gid> further = peer.rails->further();
  const auto at = std::find(further.begin(), further.end(), address);
  if (at == further.end()) return std::nullopt;
  return static_cast<uint8_t>(at - further.begin() + 1);
}

// Whether `p` names what only the peer and we know. //= threat:A25
bool Engine::names_secret(const Peer& peer, const wire::SrdPacket& p) const noexcept {
  const bool theirs = wire::is_sequenced(p.opcode);
  return p.incarnation != 0 && p.incarnation == (theirs ? peer.incarnation : peer.tx.incarnation);
}

// The peer that a packet comes from, if it is known, and the way that it took. On any way but the
// first, a packet is its peer's only if it names the secret. False: it came to a further address of
// ours and names none; it is nobody's, and gets no answer.
bool Engine::find_among_rails(Arrival& arrival) noexcept {
  const wire::SrdPacket& p = arrival.packet;
  const Gid& source = arrival.frame.path->source;
  const uint32_t block = p.source.value >> 16;
  arrival.way.local = local_of(arrival.frame.path->destination).value_or(0);
  arrival.peer = find_peer(source, block);
  if (arrival.peer != nullptr && names_secret(*arrival.peer, p)) return true;
  if (const auto at = aliases_.find({source, block, p.incarnation}); at != aliases_.end()) {
    Peer& owner = *peers_[at->second];
    const std::optional<uint8_t> remote = remote_of(owner, source);
    if (remote && names_secret(owner, p)) {
      arrival.peer = &owner;
      arrival.way.remote = *remote;
      return true;
    }
  }
  return arrival.way.local == 0;
}

// Without memory some are missing until the peer tells its addresses again.
void Engine::enter_aliases(const Peer& peer) noexcept {
  Rails& rails = *peer.rails;
  rails.named = peer.tx.incarnation;
  const bool entered = base::memory_permitting([&] {
    for (const Gid& address : rails.further())
      for (const uint32_t secret : {peer.incarnation, peer.tx.incarnation})
        if (secret != 0) aliases_.try_emplace({address, peer.block, secret}, peer.index);
  });
  rails.incomplete = !entered;
  uses_rails_ = addresses_.size() > 1 || !aliases_.empty();
}

void Engine::leave_aliases(const Peer& peer) noexcept {
  if (peer.rails == nullptr) return;
  for (const Gid& address : peer.rails->further()) {
    for (const uint32_t secret : {peer.incarnation, peer.rails->named}) {
      const auto at = aliases_.find({address, peer.block, secret});
      if (at != aliases_.end() && at->second == peer.index) aliases_.erase(at);
    }
  }
  uses_rails_ = addresses_.size() > 1 || !aliases_.empty();
}

// ---- who asks

// A way that carries nothing yet is asked for while there is something to send, again and again,
// more and more seldom.
void Engine::ask_for_ways(Peer& peer, Instant now) noexcept {
  const Sender& tx = peer.tx;
  if (tx.incarnation == 0 || tx.epoch == 0) return;
  if (!has_rails(peer, now)) return;
  if ((peer.rails->joined() + 1) * entropies_ > kMostPaths) return;
  for (Rails::Candidate& c : peer.rails->candidates()) {
    if (now < c.ask_at || !room()) continue;
    c.ask_at = now + kAskAgain * (int64_t{1} << c.asks);
    c.asks = static_cast<uint8_t>(std::min(c.asks + 1, kMostDoublings));
    wire::SrdPacket p;
    p.epoch = tx.epoch;
    p.incarnation = tx.incarnation;
    p.dest = peer.endpoint();
    const Gid& to = address_of(peer, c.way.remote);
    send_rails(p, {.to = to, .local = c.way.local}, incarnation_for(to, peer.block), false);
    count(Count::tx_rail_requests);
  }
}

// We have several addresses, of which the sender of this stream may not know: with the first of its
// acknowledgements, the second, the fourth and so on, until it asks.
void Engine::tell_of_rails(Peer& peer) noexcept {
  Receiver& rx = peer.rx;
  if (rx.asked_for_ways || peer.stranger || !rx.known || !room()) return;
  if (!std::has_single_bit(++rx.told_of_rails)) return;
  wire::SrdPacket p;
  p.path = rx.path;
  p.epoch = rx.epoch;
  p.incarnation = peer.incarnation;
  p.dest = peer.endpoint();
  send_rails(p, {.to = address_of(peer, rx.way.remote), .local = rx.way.local}, 0, true);
}

// `p` has what the packets differ in.
void Engine::send_rails(wire::SrdPacket p, const Turn& turn, uint32_t challenge,
                        bool answers) noexcept {
  p.opcode = wire::SrdOpcode::rails;
  p.source = QpNum{block_ << 16};
  wire::SrdRails body;
  body.primary = addresses_[0];
  body.challenge = challenge;
  body.answers = answers ? 1 : 0;
  const size_t further = addresses_.size() - 1;
  body.count = static_cast<uint8_t>(further);
  const Path& path = path_of(turn.to, turn.local, source_port_of(turn.local, p.path), 0);
  const size_t list = further * sizeof(Gid);
  std::byte* at =
      builder_.start(path, wire::srd_emit_length(p) + static_cast<uint32_t>(sizeof body + list), 0);
  at = wire::srd_emit(at, p, 0);
  std::memcpy(at, &body, sizeof body);
  if (list != 0) std::memcpy(at + sizeof body, &addresses_[1], list);
  builder_.finish();
}

// ---- who is asked, and what comes back

//= threat:A16 only who names what the peer alone can know tells us addresses of the peer
void Engine::on_rails(const Frame& frame, const wire::SrdPacket& p, Instant now) noexcept {
  const wire::SrdRails& body = *p.rails;
  const bool answers = body.answers != 0;
  Peer* const peer = find_peer(body.primary, p.source.value >> 16);
  if (peer == nullptr) return count(Count::rx_unknown_peer);
  const uint32_t secret = answers ? peer->tx.incarnation : peer->incarnation;
  if (p.incarnation == 0 || p.incarnation != secret) return count(Count::rx_other_incarnation);
  const bool stale =
      answers ? p.epoch != peer->tx.epoch : !peer->rx.known || newer(peer->rx.epoch, p.epoch);
  if (stale) return count(Count::rx_stale_stream);
  const auto* const list = reinterpret_cast<const Gid*>(&body + 1);
  if (!learn_rails(*peer, {list, body.count}, now)) return count(Count::rx_bad_source);
  const std::optional<uint8_t> local = local_of(frame.path->destination);
  const std::optional<uint8_t> remote = remote_of(*peer, frame.path->source);
  if (!local || !remote) return count(Count::rx_bad_source);
  if (!answers) {
    peer->rx.asked_for_ways = true;
    wire::SrdPacket answer;
    answer.opcode = p.opcode;
    answer.path = p.path;
    answer.dest = peer->endpoint();
    answer.epoch = p.epoch;
    answer.incarnation = peer->incarnation;
    return put_reply({{frame.path->source, *local}, answer, body.challenge});
  }
  // Only who has got our question on this way knows its number: nobody has us send to a third one.
  if (peer->rails == nullptr) return;  // we have not asked anything
  if (body.challenge != incarnation_for(frame.path->source, peer->block)) return;
  if ((peer->rails->joined() + 1) * entropies_ > kMostPaths) return;
  if (!peer->rails->join({*local, *remote})) return;
  Flight* const flight = peer->tx.flight.get();
  if (flight != nullptr &&
      !base::memory_permitting([&] { flight->paths.grow(peer->rails->joined()); }))
    return peer->rails->part();
  count(Count::ways_joined);
}

// False: there is no memory for what is known of them.
bool Engine::has_rails(Peer& peer, Instant now) noexcept {
  if (peer.rails != nullptr) return true;
  peer.rails.reset(new (std::nothrow) Rails);
  if (peer.rails == nullptr) return false;
  peer.rails->plan(static_cast<uint32_t>(addresses_.size()), now);
  return true;
}

// The peer tells its further addresses. They are the same as long as its process lives; those of a
// process that is dead go when nothing is on its way there. False: that is not yet.
bool Engine::learn_rails(Peer& peer, std::span<const Gid> list, Instant now) noexcept {
  const auto locals = static_cast<uint32_t>(addresses_.size());
  if (peer.rails == nullptr && list.empty()) return true;
  if (!has_rails(peer, now)) return false;
  Rails& rails = *peer.rails;
  if (rails.tells(list) && rails.named == peer.tx.incarnation && !rails.incomplete) return true;
  leave_aliases(peer);
  if (!rails.tells(list)) {
    const bool busy = rails.leads_beyond_first();
    if (busy && peer.tx.una != peer.tx.next) return enter_aliases(peer), false;
    peer.rx.way.remote = 0;
    rails.learn(list);
    if (busy) {
      drop_flight(peer);
      rails.restart(locals, now);
    } else {
      rails.plan(locals, now);
    }
  }
  enter_aliases(peer);
  return !rails.incomplete;
}

// The stream begins anew, perhaps to another process: ways are asked for again.
void Engine::restart_rails(Peer& peer) noexcept {
  if (peer.rails != nullptr) peer.rails->restart(static_cast<uint32_t>(addresses_.size()), now_);
}

}  // namespace weft::srd
