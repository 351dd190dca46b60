// SPDX-License-Identifier: BSD-3-Clause
// Routes over several addresses: the sender of a stream requests each route on that route, so what
// carries data is known to work and to end at the peer: the response repeats a number that only the
// receiver of the request can know.
#include <algorithm>
#include <cstring>
#include <new>

#include "lib/srd/send/send.hpp"

namespace weft::srd {

namespace {

constexpr Duration kRequestAgain = Duration::from_ms(1);  // the first time; then doubled
constexpr int kMostDoublings = 10;

}  // namespace

void send_rails_packet(Context& ctx, wire::SrdPacket p, const Destination& to, uint32_t challenge,
                       bool is_response) noexcept {
  WEFT_DCHECK(ctx.has_room());
  p.opcode = wire::SrdOpcode::rails;
  p.source = ctx.endpoint();
  const std::vector<Gid>& addresses = ctx.frame_paths.addresses();
  wire::SrdRails body;
  body.primary = addresses[0];
  body.challenge = challenge;
  body.answers = is_response ? 1 : 0;
  const size_t further = addresses.size() - 1;
  body.count = static_cast<uint8_t>(further);
  const Path& path = ctx.frame_paths.of(
      to.address, to.local, ctx.frame_paths.source_port(to.local, p.path), 0, to.in_memory);
  const size_t list = further * sizeof(Gid);
  std::byte* at = ctx.builder().start(
      path, wire::srd_emit_length(p) + static_cast<uint32_t>(sizeof body + list), 0);
  at = wire::srd_emit(at, p, 0);
  std::memcpy(at, &body, sizeof body);
  if (list != 0) std::memcpy(at + sizeof body, &addresses[1], list);
  ctx.builder().finish();
}

bool ensure_rails(Context& ctx, Peer& peer, Instant now) noexcept {
  if (peer.rails != nullptr) return true;
  peer.rails.reset(new (std::nothrow) Rails);
  if (peer.rails == nullptr) return false;
  peer.rails->plan(ctx.frame_paths.address_count(), now);
  return true;
}

void restart_routes(Context& ctx, Peer& peer) noexcept {
  if (peer.rails != nullptr) peer.rails->restart(ctx.frame_paths.address_count(), ctx.now);
}

void request_routes(SendContext& ctx, Peer& peer, Instant now) noexcept {
  const Sender& tx = peer.tx;
  if (tx.incarnation() == 0 || tx.epoch == 0) return;
  if (!ensure_rails(ctx, peer, now)) return;
  if ((peer.rails->joined() + 1) * ctx.frame_paths.ports_per_address() > kMostPaths) return;
  for (Rails::Candidate& c : peer.rails->candidates()) {
    if (now < c.request_at || !ctx.has_room()) continue;
    c.request_at = now + kRequestAgain * (int64_t{1} << c.requests);
    c.requests = static_cast<uint8_t>(std::min(c.requests + 1, kMostDoublings));
    wire::SrdPacket p;
    p.epoch = tx.epoch;
    p.incarnation = tx.incarnation();
    p.dest = peer.endpoint();
    const Gid& to = ctx.address_of(peer, c.route.remote);
    const uint32_t challenge = ctx.incarnations.challenge_for(to, peer.qpn_prefix);
    send_rails_packet(ctx, p, {.address = to, .local = c.route.local}, challenge, false);
    ctx.count(Count::tx_rail_requests);
  }
}

}  // namespace weft::srd
