// SPDX-License-Identifier: BSD-3-Clause
// Which packets are lost. Four signs. A gap: a packet that left later on the same path has arrived
// (packets of one path seldom overtake each other; how many may is learned from duplicates).
// Overtaken: it takes half again as long as its path usually does, and a packet that left as much
// later on another path has arrived (as RACK, RFC 8985, does on one path). The tail loss probe and
// the RTO: send_timer.cpp. Besides, a switch may report that it trimmed a packet.
#include <algorithm>

#include "lib/srd/send/send.hpp"

namespace weft::srd {

namespace {
constexpr int64_t kSlackVariations = 4;
}  // namespace

//= threat:A23 what stands still on one path goes over others
Instant overtaken_at(const Sender& tx, const Record& r) noexcept {
  const uint32_t known = tx.flight->paths[r.path].rtt_ns;
  const int64_t smoothed = tx.rtt.smoothed.ns();
  const int64_t usual = known != 0 ? std::max<int64_t>(known, smoothed) : smoothed * 2;
  if (usual == 0) return Instant::never();  // no round trip is known
  const int64_t reordering = usual / 2 * (1 + std::min<int>(tx.recovery.reorder_tolerance, 8));
  const Duration slack =
      Duration::from_ns(std::max(reordering, tx.rtt.variation.ns() * kSlackVariations));
  if (tx.recovery.newest_acked - r.sent <= slack) return Instant::never();
  return r.sent + Duration::from_ns(usual) + slack;
}

// The list is in the order of transmission, so the walk ends at the first packet that left after
// everything that has been acknowledged.
void detect_losses(SendContext& ctx, Peer& peer, Instant now) noexcept {
  Sender& tx = peer.tx;
  Flight& flight = *tx.flight;
  for (uint16_t at = flight.in_flight.oldest; at != RecordList::kNone;) {
    Record& r = flight.at(at);
    WEFT_DCHECK(r.state == Record::State::in_flight);
    const uint16_t newer = r.newer;
    const PathState& path = flight.paths[r.path];
    const int gap = static_cast<int16_t>(path.acked_sequence - r.path_sequence);
    const bool overtaken = now >= overtaken_at(tx, r);
    if ((path.ever_acked && gap > tx.recovery.reorder_tolerance) || overtaken) {
      flight.paths.on_loss(r.path, now);
      mark_lost(ctx, peer, flight.sequence_at(at, tx.una),
                {.now = now, .reason = congestion::Loss::Reason::gap});
      ctx.count(Count::path_losses);
    } else if (r.sent > tx.recovery.newest_acked) {
      break;
    }
    at = newer;
  }
}

void mark_lost(SendContext& ctx, Peer& peer, uint64_t sequence, congestion::Loss loss) noexcept {
  const Record& r = (*peer.tx.flight)[sequence];
  loss.path = r.path;
  if (r.counts()) peer.tx.flight->flow.on_lost(r.length, loss);
  mark_lost(ctx, peer, sequence);
}

void mark_lost(SendContext& ctx, Peer& peer, uint64_t sequence) noexcept {
  Sender& tx = peer.tx;
  WEFT_DCHECK(tx.una <= sequence && sequence < tx.next);
  Record& r = (*tx.flight)[sequence];
  WEFT_DCHECK(r.state == Record::State::in_flight);
  tx.flight->remove(tx.flight->in_flight, sequence);
  tx.flight->paths.on_end(r.path);
  r.state = Record::State::lost;
  tx.flight->append(tx.flight->lost, sequence);
  ctx.activate(peer);
}

void on_trimmed(SendContext& ctx, Peer& peer, const Arrival& arrival) noexcept {
  const wire::SrdPacket& p = arrival.packet;
  Sender& tx = peer.tx;
  if (!names_incarnation(tx, p)) return ctx.count(Count::rx_other_incarnation);
  if (p.epoch != tx.epoch || tx.flight == nullptr) return ctx.count(Count::rx_stale_response);
  if (p.sequence < tx.una || p.sequence >= tx.next) return ctx.count(Count::rx_stale_response);
  const Record& r = (*tx.flight)[p.sequence];
  if (r.state != Record::State::in_flight || r.path != p.path || r.path_sequence != p.path_sequence)
    return ctx.count(Count::rx_stale_response);
  ctx.count(Count::trim_losses);
  const bool last_hop = p.detail == 1;
  tx.flight->paths.on_trimmed(r.path, last_hop, arrival.now);
  mark_lost(ctx, peer, p.sequence,
            {.now = arrival.now,
             .rtt = arrival.now - r.sent,
             .reason = congestion::Loss::Reason::trimmed,
             .last_hop = last_hop,
             .digest = p.digest});
  rearm_timer(ctx, peer, arrival.now);
}

}  // namespace weft::srd
