// SPDX-License-Identifier: BSD-3-Clause
// Several addresses of a peer: which packets are its packets, requests for routes and responses.
//
// A request is accepted when it names our incarnation, which only the peer can know; that is also
// what identifies a peer's packets from another of its addresses, so claiming an address of another
// endpoint diverts nothing from it.
#include <algorithm>
#include <array>
#include <bit>

#include "lib/base/memory_permitting.hpp"
#include "lib/srd/receive/receive.hpp"

namespace weft::srd {

namespace {

bool newer(uint32_t a, uint32_t b) { return static_cast<int32_t>(a - b) > 0; }

// Which of the peer's addresses; nothing: none that is known.
std::optional<uint8_t> remote_index(const Peer& peer, const Gid& address) noexcept {
  if (peer.address == address) return uint8_t{0};
  if (peer.rails == nullptr) return std::nullopt;
  const std::span<const Gid> further = peer.rails->further();
  const auto at = std::find(further.begin(), further.end(), address);
  if (at == further.end()) return std::nullopt;
  return static_cast<uint8_t>(at - further.begin() + 1);
}

// `p` names what only the peer and we know. //= threat:A25
bool names_incarnation(const Peer& peer, const wire::SrdPacket& p) noexcept {
  const bool to_us = wire::is_sequenced(p.opcode);
  return p.incarnation != 0 &&
         p.incarnation == (to_us ? peer.introduced.incarnation : peer.tx.incarnation());
}

// Without memory some are missing until the peer announces its addresses again.
void insert_aliases(ReceiveContext& ctx, const Peer& peer) noexcept {
  Rails& rails = *peer.rails;
  rails.alias_incarnations = {peer.introduced.incarnation, peer.tx.incarnation()};
  const bool entered = base::memory_permitting([&] {
    for (const Gid& address : rails.further())
      for (const uint64_t incarnation : rails.alias_incarnations)
        if (incarnation != 0)
          ctx.aliases.try_emplace({address, peer.qpn_prefix, incarnation}, peer.index);
  });
  rails.incomplete = !entered;
  ctx.uses_rails = ctx.frame_paths.multi_homed() || !ctx.aliases.empty();
}

// The peer announces its further addresses. They are the same as long as its process lives; those
// of a dead process are replaced when nothing is in flight to them. False: not yet.
bool record_addresses(ReceiveContext& ctx, Peer& peer, std::span<const Gid> list,
                      Instant now) noexcept {
  const uint32_t locals = ctx.frame_paths.address_count();
  if (peer.rails == nullptr && list.empty()) return true;
  if (!ensure_rails(ctx, peer, now)) return false;
  Rails& rails = *peer.rails;
  const std::array present = {peer.introduced.incarnation, peer.tx.incarnation()};
  if (rails.has_addresses(list) && rails.alias_incarnations == present && !rails.incomplete)
    return true;
  erase_aliases(ctx, peer);
  if (!rails.has_addresses(list)) {
    const bool busy = rails.uses_further_address();
    if (busy && peer.tx.una != peer.tx.next) return insert_aliases(ctx, peer), false;
    peer.rx.echo.route.remote = 0;
    rails.set_addresses(list);
    if (busy) {
      drop_flight(ctx, peer);
      rails.restart(locals, now);
    } else {
      rails.plan(locals, now);
    }
  }
  insert_aliases(ctx, peer);
  return !rails.incomplete;
}

}  // namespace

// On any route but the first, a packet is its peer's only if it names the incarnation. False: it
// came to a further address of ours and names none.
bool find_source_among_rails(ReceiveContext& ctx, Arrival& arrival) noexcept {
  const wire::SrdPacket& p = arrival.packet;
  const Gid& source = arrival.frame.path->source;
  const uint32_t qpn_prefix = p.source.value >> 16;
  arrival.route.local = ctx.frame_paths.local_index(arrival.frame.path->destination).value_or(0);
  arrival.peer = ctx.peers.find(source, qpn_prefix);
  if (arrival.peer != nullptr && names_incarnation(*arrival.peer, p)) return true;
  if (const auto at = ctx.aliases.find({source, qpn_prefix, p.incarnation});
      at != ctx.aliases.end()) {
    WEFT_DCHECK(at->second < ctx.peers.size());
    Peer& owner = ctx.peers[at->second];
    const std::optional<uint8_t> remote = remote_index(owner, source);
    if (remote && names_incarnation(owner, p)) {
      arrival.peer = &owner;
      arrival.route.remote = *remote;
      return true;
    }
  }
  return arrival.route.local == 0;
}

void erase_aliases(ReceiveContext& ctx, const Peer& peer) noexcept {
  if (peer.rails == nullptr) return;
  for (const Gid& address : peer.rails->further()) {
    for (const uint64_t incarnation : peer.rails->alias_incarnations) {
      const auto at = ctx.aliases.find({address, peer.qpn_prefix, incarnation});
      if (at != ctx.aliases.end() && at->second == peer.index) ctx.aliases.erase(at);
    }
  }
  ctx.uses_rails = ctx.frame_paths.multi_homed() || !ctx.aliases.empty();
}

// With the first acknowledgement of a stream, the second, the fourth and so on, until its sender
// requests routes.
void announce_addresses(ReceiveContext& ctx, Peer& peer) noexcept {
  Receiver& rx = peer.rx;
  WEFT_DCHECK(ctx.frame_paths.multi_homed());
  if (rx.routes_requested || !rx.known || !ctx.has_room()) return;
  if (!std::has_single_bit(++rx.announcements)) return;
  wire::SrdPacket p;
  p.path = rx.echo.path;
  p.epoch = rx.epoch;
  p.incarnation = peer.introduced.incarnation;
  p.dest = peer.endpoint();
  const Route route = rx.echo.route;
  send_rails_packet(ctx, p, {.address = ctx.address_of(peer, route.remote), .local = route.local},
                    0, true);
}

//= threat:A16 addresses of a peer are accepted only with what the peer alone can know
void on_rails(ReceiveContext& ctx, const Frame& frame, const wire::SrdPacket& p,
              Instant now) noexcept {
  const wire::SrdRails& body = *p.rails;
  const bool is_response = body.answers != 0;
  Peer* const peer = ctx.peers.find(body.primary, p.source.value >> 16);
  if (peer == nullptr) return ctx.count(Count::rx_unknown_peer);
  const uint64_t incarnation = is_response ? peer->tx.incarnation() : peer->introduced.incarnation;
  if (p.incarnation == 0 || p.incarnation != incarnation)
    return ctx.count(Count::rx_other_incarnation);
  const bool stale =
      is_response ? p.epoch != peer->tx.epoch : !peer->rx.known || newer(peer->rx.epoch, p.epoch);
  if (stale) return ctx.count(Count::rx_stale_stream);
  const auto* const list = reinterpret_cast<const Gid*>(&body + 1);
  if (!record_addresses(ctx, *peer, {list, body.count}, now))
    return ctx.count(Count::rx_bad_source);
  const std::optional<uint8_t> local = ctx.frame_paths.local_index(frame.path->destination);
  const std::optional<uint8_t> remote = remote_index(*peer, frame.path->source);
  if (!local || !remote) return ctx.count(Count::rx_bad_source);
  if (!is_response) {
    peer->rx.routes_requested = true;
    wire::SrdPacket answer;
    answer.opcode = p.opcode;
    answer.path = p.path;
    answer.dest = peer->endpoint();
    answer.epoch = p.epoch;
    answer.incarnation = p.incarnation;
    return queue_reply(ctx, {{frame.path->source, *local}, answer, body.challenge});
  }
  // Only what received our request on this route knows its challenge, so nothing can direct our
  // packets to a third address.
  if (peer->rails == nullptr) return;  // nothing was requested
  if (body.challenge != ctx.incarnations.challenge_for(frame.path->source, peer->qpn_prefix))
    return;
  if ((peer->rails->joined() + 1) * ctx.frame_paths.ports_per_address() > kMostPaths) return;
  if (!peer->rails->join({*local, *remote})) return;
  Flight* const flight = peer->tx.flight.get();
  if (flight != nullptr &&
      !base::memory_permitting([&] { flight->paths.grow(peer->rails->joined()); }))
    return peer->rails->undo_join();
  ctx.count(Count::ways_joined);
}

}  // namespace weft::srd
