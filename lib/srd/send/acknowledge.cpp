// SPDX-License-Identifier: BSD-3-Clause
// An acknowledgement: which packets were executed, and how long the round trip takes.
#include <algorithm>
#include <bit>

#include "lib/srd/send/send.hpp"

namespace weft::srd {

namespace {

constexpr uint8_t kMostTolerance = 64;

// RFC 6298, with gains of 1/8 and 1/4.
void update_rtt(Sender& tx, Duration sample) noexcept {
  WEFT_DCHECK(sample.ps > 0);
  RttEstimate& rtt = tx.rtt;
  if (!rtt.known()) {
    rtt.smoothed = sample;
    rtt.variation = sample / 2;
    return;
  }
  const Duration error = sample - rtt.smoothed;
  rtt.smoothed = rtt.smoothed + error / 8;
  tx.flight->paths.set_rtt(rtt.smoothed);
  rtt.variation =
      rtt.variation + (Duration{error.ps < 0 ? -error.ps : error.ps} - rtt.variation) / 4;
}

// An earlier transmission of `r` has arrived, after it was marked lost and retransmitted. Its round
// trip took at least the time since the transmission before the newest. Without that, all packets
// would be marked lost forever where round trips have become longer than the RTO.
//
// While no round trip is known, it took no longer than since the flight began. Without that, a peer
// farther away than the first tail probe would be sent every single packet several times forever.
Duration rtt_of_earlier_copy(Sender& tx, const Record& r, const Arrival& arrival) noexcept {
  if (tx.rtt.known()) {
    const Duration least = arrival.now - r.sent + Duration::from_us(r.before_us) -
                           Duration::from_ns(arrival.packet.ack->delay_ns);
    if (r.tries == 1 || least <= tx.rtt.smoothed) return {};
    update_rtt(tx, least);
    return least;
  }
  const Duration sample = arrival.now - tx.recovery.progress_at;
  if (tx.recovery.tail_probes == 0 || sample.ps <= 0) return {};
  update_rtt(tx, sample);
  return sample;
}

// The acknowledgement echoes a transmission: that gives a round trip, and feedback for the path
// policy. Returns the round trip, 0 if it cannot be known.
//= threat:A27 a round trip is never negative, and one long one does not last
Duration measure_rtt(SendContext& ctx, Peer& peer, const Arrival& arrival) noexcept {
  const wire::SrdPacket& p = arrival.packet;
  Sender& tx = peer.tx;
  const auto more = static_cast<uint16_t>(p.ack->duplicates - tx.recovery.duplicates);
  if (more != 0 && more < 0x8000) {
    tx.recovery.duplicates = p.ack->duplicates;
    ctx.count(Count::spurious_retransmits, more);
    tx.recovery.reorder_tolerance = static_cast<uint8_t>(
        std::min<uint32_t>(tx.recovery.reorder_tolerance * 2u + 1, kMostTolerance));
  }
  const uint64_t sequence = tx.una + static_cast<uint32_t>(p.ack->echo - tx.una);
  if (sequence >= tx.next) return {};
  Record& r = (*tx.flight)[sequence];
  if (r.state != Record::State::in_flight) return {};
  if (r.path != p.path || r.path_sequence != p.path_sequence)
    return rtt_of_earlier_copy(tx, r, arrival);
  tx.flight->paths.on_ack(r.path, (p.ack->flags & 1) != 0, arrival.now);
  const int64_t ns = (arrival.now - r.sent).ns() - int64_t{p.ack->delay_ns};
  if (ns <= 0) return {};
  const Duration sample = Duration::from_ns(ns);
  tx.flight->paths.on_rtt(r.path, sample, arrival.now);
  update_rtt(tx, sample);
  return sample;
}

// Acknowledges what is below p.sequence or in the bitmap. True: some of it was not yet.
bool take_acked(SendContext& ctx, Peer& peer, const wire::SrdPacket& p, bool others_well) noexcept {
  Sender& tx = peer.tx;
  const uint64_t before = tx.una;
  const uint64_t echoed = before + static_cast<uint32_t>(p.ack->echo - before);
  bool progress = p.sequence != before;
  for (uint64_t s = before; s < p.sequence; ++s)
    on_packet_acked(ctx, peer, s, others_well && s != echoed);
  const auto* words = reinterpret_cast<const base::Be64*>(p.ack + 1);
  for (uint32_t w = 0; w < p.ack->words; ++w) {
    for (uint64_t bits = words[w]; bits != 0; bits &= bits - 1) {
      const uint64_t s = p.sequence + 64 * w + static_cast<uint64_t>(std::countr_zero(bits));
      if (s >= tx.next) break;
      if ((*tx.flight)[s].state == Record::State::acked) continue;
      on_packet_acked(ctx, peer, s, others_well && s != echoed);
      progress = true;
    }
  }
  WEFT_DCHECK(tx.una == before);
  return progress;
}

}  // namespace

void on_packet_acked(SendContext& ctx, Peer& peer, uint64_t sequence, bool well) noexcept {
  Sender& tx = peer.tx;
  WEFT_DCHECK(tx.una <= sequence && sequence < tx.next);
  Record& r = (*tx.flight)[sequence];
  WEFT_DCHECK(r.state != Record::State::free);
  if (r.state == Record::State::acked) return;
  if (r.state == Record::State::in_flight) {
    WEFT_DCHECK(r.tries != 0);
    tx.flight->remove(tx.flight->in_flight, sequence);
    tx.flight->paths.on_end(r.path);
    if (r.counts()) tx.flight->flow.on_arrived(r.length);
    // Of a packet that was sent twice it is not known which transmission arrived.
    if (r.tries == 1) {
      tx.flight->paths.on_arrival(r.path, r.path_sequence);
      if (well) tx.flight->paths.on_ack(r.path, false, ctx.now);
      tx.recovery.newest_acked = std::max(tx.recovery.newest_acked, r.sent);
    }
  } else {
    tx.flight->remove(tx.flight->lost, sequence);
    ctx.count(Count::spurious_retransmits);  // marked lost, and not retransmitted yet
  }
  r.state = Record::State::acked;
  Message* const m = r.message;
  r.message = nullptr;
  if (m == nullptr) return;
  WEFT_DCHECK(m->unacked > 0);
  if (--m->unacked == 0) on_all_acked(ctx, *m);
}

void advance_una(Sender& tx) noexcept {
  while (tx.una != tx.next && (*tx.flight)[tx.una].state == Record::State::acked)
    (*tx.flight)[tx.una++] = Record{};
  WEFT_DCHECK(tx.una <= tx.next);
}

//= threat:A09 what counts is what is newly acknowledged, however many acknowledgements say it
void on_acknowledge(SendContext& ctx, Peer& peer, const Arrival& arrival) noexcept {
  const wire::SrdPacket& p = arrival.packet;
  Sender& tx = peer.tx;
  ctx.count(Count::rx_acks);
  if (!names_incarnation(tx, p)) return ctx.count(Count::rx_other_incarnation);
  if (p.epoch != tx.epoch || tx.flight == nullptr || p.sequence < tx.una)
    return ctx.count(Count::rx_duplicate_acks);
  if (p.sequence > tx.next) return ctx.count(Count::rx_ghost_ack);
  tx.confirmed = true;
  Flow::Echo echo{.now = arrival.now,
                  .rtt = measure_rtt(ctx, peer, arrival),
                  .path = p.path,
                  .digest = p.detail};
  // A reordered acknowledgement counts fewer marks than are known already.
  if (const auto more = static_cast<int16_t>(p.ack->marks - tx.ecn_marks); more > 0) {
    echo.marked = static_cast<uint16_t>(more);
    tx.ecn_marks = p.ack->marks;
  }
  // If at most the echoed packet was marked, the paths of all others did well: a policy that reuses
  // those learns one path for each packet, however few acknowledgements arrive.
  const bool others_well = echo.marked == (p.ack->flags & 1u);
  const bool progress = take_acked(ctx, peer, p, others_well);
  advance_una(tx);
  if (progress) {
    tx.recovery.progress_at = arrival.now;
    tx.recovery.backoff = 0;
    tx.recovery.tail_probes = 0;
  }
  if (static_cast<int32_t>(p.ack->granted - tx.credit_granted) > 0) {
    tx.flight->flow.on_credit(p.ack->granted - tx.credit_granted, arrival.now);
    tx.credit_granted = p.ack->granted;
  }
  if (!tx.flight->flow.on_acknowledgement(echo)) ctx.count(Count::acks_without_telemetry);
  if (tx.una != tx.next) {
    detect_losses(ctx, peer, arrival.now);
  } else {
    if (tx.awaiting_response != 0) schedule_liveness_probe(ctx, peer, arrival.now);
    end_flight(ctx, peer);
  }
  if (tx.has_work()) ctx.activate(peer);
}

}  // namespace weft::srd
