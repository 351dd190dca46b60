// SPDX-License-Identifier: BSD-3-Clause
// What the sender learns: which packets arrived, how long a path takes, and which packets are lost.
//
// Four signs of a loss. A gap: a packet that left later on the same path has arrived (packets of
// one path seldom overtake each other; how many may is learned from packets that came twice).
// Overtaken: it takes half again as long as its path usually does, and one that left as much later
// on another path has arrived (as RACK, RFC 8985, does on one path). The tail: nothing has arrived
// for two round trips, so the oldest packet is sent once more. Time: it is older than the time-out.
#include <algorithm>
#include <bit>

#include "lib/srd/engine.hpp"

namespace weft::srd {

namespace {
constexpr uint8_t kMostTolerance = 64;
constexpr int kOtherPaths = 3;      // time-outs in a row until they take longer
constexpr int kMostDoublings = 8;   // of the time that they take
constexpr int64_t kLeastTries = 8;  // of a packet, while the peer may still be alive
constexpr int64_t kSlackVariations = 4;
constexpr Duration kAskAfter = Duration::from_ms(50);
}  // namespace

//= threat:A09 what counts is what is newly acknowledged, however many acknowledgements say it
void Engine::on_acknowledge(Peer& peer, const Arrival& arrival) noexcept {
  const wire::SrdPacket& p = arrival.packet;
  Sender& tx = peer.tx;
  count(Count::rx_acks);
  if (p.epoch != tx.epoch || tx.flight == nullptr || p.sequence < tx.una)
    return count(Count::rx_duplicate_acks);
  if (p.sequence > tx.next || p.incarnation == 0) return count(Count::rx_ghost_ack);
  if (tx.incarnation == 0) {
    tx.incarnation = p.incarnation;
    // Only now its wishes for credit are heard: one more packet, to say them.
    tx.flight->flow.allow_one();
  }
  if (tx.incarnation != p.incarnation) return count(Count::rx_other_incarnation);
  tx.confirmed = true;
  tx.anew = false;
  Flow::Echo echo{
      .now = arrival.now, .rtt = measure(peer, arrival), .path = p.path, .digest = p.detail};
  // One that was overtaken counts less than is known already.
  if (const auto more = static_cast<int16_t>(p.ack->marks - tx.marks); more > 0) {
    echo.marked = static_cast<uint16_t>(more);
    tx.marks = p.ack->marks;
  }
  const uint64_t before = tx.una;
  // If nothing but the echoed packet met ECN, the paths of all others did well: a policy that uses
  // those again has one for each packet, however few acknowledgements come.
  const bool others_well = echo.marked == (p.ack->flags & 1u);
  const uint64_t echoed = before + static_cast<uint32_t>(p.ack->echo - before);
  bool progress = p.sequence != before;
  for (uint64_t s = before; s < p.sequence; ++s) acknowledge(peer, s, others_well && s != echoed);
  const auto* words = reinterpret_cast<const base::Be64*>(p.ack + 1);
  for (uint32_t w = 0; w < p.ack->words; ++w) {
    for (uint64_t bits = words[w]; bits != 0; bits &= bits - 1) {
      const uint64_t s = p.sequence + 64 * w + static_cast<uint64_t>(std::countr_zero(bits));
      if (s >= tx.next) break;
      if ((*tx.flight)[s].state == Record::State::acked) continue;
      acknowledge(peer, s, others_well && s != echoed);
      progress = true;
    }
  }
  advance(tx);
  if (progress) {
    tx.progress_at = arrival.now;
    tx.backoff = 0;
    tx.probes = 0;
  }
  if (static_cast<int32_t>(p.ack->granted - tx.granted) > 0) {
    tx.flight->flow.on_credit(p.ack->granted - tx.granted, arrival.now);
    tx.granted = p.ack->granted;
  }
  if (!tx.flight->flow.on_acknowledgement(echo)) count(Count::acks_without_telemetry);
  if (tx.una != tx.next) {
    find_losses(peer, arrival.now);
  } else {
    if (tx.awaiting != 0) expect_answer(peer, arrival.now);
    end_flight(peer);
  }
  if (tx.busy()) activate(peer);
}

// A READ or an atomic was received but its answer may never come, if the peer has lost it: ask.
void Engine::expect_answer(Peer& peer, Instant now) noexcept {
  peer.tx.probe_answers_at = now + std::max(kAskAfter, rto_of(peer) * 8);
  arm(peer, peer.tx.probe_answers_at);
}

// A packet without content: whoever does not know the stream any more says so.
void Engine::ask(Peer& peer, Instant now) noexcept {
  Sender& tx = peer.tx;
  expect_answer(peer, now);
  if (!begin_flight(peer, now)) return;
  Record& r = *tx.flight->begin(tx.una, tx.next);  // the first one always has room
  r.kind = Record::Kind::fill;
  r.state = Record::State::lost;
  tx.flight->append(tx.flight->lost, tx.next++);
  activate(peer);
}

void Engine::advance(Sender& tx) noexcept {
  while (tx.una != tx.next && (*tx.flight)[tx.una].state == Record::State::acked)
    (*tx.flight)[tx.una++] = Record{};
}

// One packet has arrived, whichever copy of it. `well`: without a mark, and nobody has told the
// path policy.
void Engine::acknowledge(Peer& peer, uint64_t sequence, bool well) noexcept {
  Sender& tx = peer.tx;
  Record& r = (*tx.flight)[sequence];
  if (r.state == Record::State::acked) return;
  if (r.state == Record::State::in_flight) {
    tx.flight->remove(tx.flight->in_flight, sequence);
    tx.flight->paths.on_end(r.path);
    if (r.counts()) tx.flight->flow.on_arrived(r.length);
    // Of a packet that was sent twice nobody knows which copy this is.
    if (r.tries == 1) {
      tx.flight->paths.on_arrival(r.path, r.path_sequence);
      if (well) tx.flight->paths.on_ack(r.path, false, now_);
      tx.newest_acked = std::max(tx.newest_acked, r.sent);
    }
  } else {
    tx.flight->remove(tx.flight->lost, sequence);
    count(Count::spurious_retransmits);  // believed lost, and nobody had sent it again yet
  }
  r.state = Record::State::acked;
  Message* const m = r.message;
  r.message = nullptr;
  if (m != nullptr && --m->unacked == 0) settle(*m);
}

// An earlier copy of `r` has arrived, after it was called lost and sent again. Its round trip took
// as long as from the copy before the newest at least. Without that, all would be called lost for
// ever where round trips have become longer than the time-out.
//
// While nothing is known of the round trip, it takes no longer than since the flight began.
// Without that, a peer farther away than the first probe would be sent every lone packet several
// times for ever.
Duration Engine::late_round_trip(Sender& tx, const Record& r, const Arrival& arrival) noexcept {
  if (tx.rtt.ps != 0) {
    const Duration least = arrival.now - r.sent + Duration::from_us(r.before_us) -
                           Duration::from_ns(arrival.packet.ack->delay_ns);
    if (r.tries == 1 || least <= tx.rtt) return {};
    note_round_trip(tx, least);
    return least;
  }
  const Duration sample = arrival.now - tx.progress_at;
  if (tx.probes == 0 || sample.ps <= 0) return {};
  note_round_trip(tx, sample);
  return sample;
}

void Engine::note_round_trip(Sender& tx, Duration sample) noexcept {
  if (tx.rtt.ps == 0) {
    tx.rtt = sample;
    tx.rtt_var = sample / 2;
    return;
  }
  const Duration error = sample - tx.rtt;
  tx.rtt = tx.rtt + error / 8;
  tx.flight->paths.set_rtt(tx.rtt);
  tx.rtt_var = tx.rtt_var + (Duration{error.ps < 0 ? -error.ps : error.ps} - tx.rtt_var) / 4;
}

// The acknowledgement says which transmission it answers: that gives a round trip, and tells the
// path policy. Returns the round trip, 0 if it cannot be known.
//= threat:A27 a round trip is never negative, and one long one does not last
Duration Engine::measure(Peer& peer, const Arrival& arrival) noexcept {
  const wire::SrdPacket& p = arrival.packet;
  Sender& tx = peer.tx;
  const auto news = static_cast<uint16_t>(p.ack->duplicates - tx.duplicates);
  if (news != 0 && news < 0x8000) {
    tx.duplicates = p.ack->duplicates;
    count(Count::spurious_retransmits, news);
    tx.tolerance = static_cast<uint8_t>(std::min<uint32_t>(tx.tolerance * 2u + 1, kMostTolerance));
  }
  const uint64_t sequence = tx.una + static_cast<uint32_t>(p.ack->echo - tx.una);
  if (sequence >= tx.next) return {};
  Record& r = (*tx.flight)[sequence];
  if (r.state != Record::State::in_flight) return {};
  if (r.path != p.path || r.path_sequence != p.path_sequence)
    return late_round_trip(tx, r, arrival);
  tx.flight->paths.on_ack(r.path, (p.ack->flags & 1) != 0, arrival.now);
  const int64_t ns = (arrival.now - r.sent).ns() - int64_t{p.ack->delay_ns};
  if (ns <= 0) return {};
  const Duration sample = Duration::from_ns(ns);
  tx.flight->paths.on_rtt(r.path, sample, arrival.now);
  note_round_trip(tx, sample);
  return sample;
}

// When a packet counts as lost because others have overtaken it; never() if none has by enough.
Instant Engine::overtaken_at(const Sender& tx, const Record& r) const noexcept {
  const uint32_t known = tx.flight->paths[r.path].rtt_ns;
  const int64_t usual = known != 0 ? std::max<int64_t>(known, tx.rtt.ns()) : tx.rtt.ns() * 2;
  if (usual == 0) return Instant::never();  // nothing is known of any round trip
  const int64_t often = usual / 2 * (1 + std::min<int>(tx.tolerance, 8));
  const Duration slack = Duration::from_ns(std::max(often, tx.rtt_var.ns() * kSlackVariations));
  if (tx.newest_acked - r.sent <= slack) return Instant::never();
  return r.sent + Duration::from_ns(usual) + slack;
}

// Gaps on a path, and packets that were overtaken. The list is in the order of transmission, so the
// walk ends at the first packet that left after everything that has been acknowledged.
void Engine::find_losses(Peer& peer, Instant now) noexcept {
  Sender& tx = peer.tx;
  Flight& flight = *tx.flight;
  for (uint16_t at = flight.in_flight.oldest; at != RecordList::kNone;) {
    Record& r = flight.at(at);
    const uint16_t newer = r.newer;
    const PathState& path = flight.paths[r.path];
    const int gap = static_cast<int16_t>(path.acked_sequence - r.path_sequence);
    const bool overtaken = now >= overtaken_at(tx, r);
    if ((path.ever_acked && gap > tx.tolerance) || overtaken) {
      flight.paths.on_loss(r.path, now);
      lose(peer, flight.sequence_at(at, tx.una),
           {.now = now, .reason = congestion::Loss::Reason::gap});
      count(Count::path_losses);
    } else if (r.sent > tx.newest_acked) {
      break;
    }
    at = newer;
  }
}

void Engine::lose(Peer& peer, uint64_t sequence, congestion::Loss loss) noexcept {
  const Record& r = (*peer.tx.flight)[sequence];
  loss.path = r.path;
  if (r.counts()) peer.tx.flight->flow.on_lost(r.length, loss);
  lose(peer, sequence);
}

void Engine::lose(Peer& peer, uint64_t sequence) noexcept {
  Sender& tx = peer.tx;
  Record& r = (*tx.flight)[sequence];
  tx.flight->remove(tx.flight->in_flight, sequence);
  tx.flight->paths.on_end(r.path);
  r.state = Record::State::lost;
  tx.flight->append(tx.flight->lost, sequence);
  activate(peer);
}

Duration Engine::rto_of(const Peer& peer) const noexcept {
  const Sender& tx = peer.tx;
  if (tx.rtt.ps == 0) return config_.first_rto;
  return std::max(config_.least_rto, tx.rtt + tx.rtt_var * 4);
}

// How old the oldest packet may become. The first few times that nothing arrives it may be the
// paths, and others are tried at once; then it is the peer or all of the network. But however long
// a few round trips took, it is tried several times before the peer counts as dead.
Duration Engine::patience_of(const Peer& peer) const noexcept {
  const int doublings = std::clamp(peer.tx.backoff - kOtherPaths, 0, kMostDoublings);
  const Duration doubled = rto_of(peer) * (int64_t{1} << doublings);
  return std::min(doubled, Duration{config_.patience.ps / kLeastTries});
}

void Engine::on_timer(Peer& peer, Instant now) noexcept {
  Sender& tx = peer.tx;
  // One that stands in line is looked after there, and nobody has said more.
  if (peer.rx.ack_at <= now && !peer.ack_line.listed) queue_ack(peer, now);
  if (tx.resting != 0) wake_resting(peer, now);
  if (tx.flight != nullptr) {
    tx.flight->flow.on_deadline(now);
    if (tx.flight->in_flight.empty()) tx.flight->flow.allow_one();
  }
  if (tx.busy()) activate(peer);
  if (tx.flight != nullptr && tx.una != tx.next) {
    if (now - tx.progress_at > config_.patience) {
      count(Count::peers_lost);
      return fail_peer(peer, Status::retry_exceeded);
    }
    on_overdue(peer, now);
    if (tx.flight != nullptr) find_losses(peer, now);
  } else if (tx.awaiting != 0 && now >= tx.probe_answers_at) {
    ask(peer, now);
  }
  rearm(peer, now);
}

// Time-outs; and when nothing has come for a while, the tail probe.
void Engine::on_overdue(Peer& peer, Instant now) noexcept {
  Sender& tx = peer.tx;
  Flight& flight = *tx.flight;
  const Duration rto = patience_of(peer);
  const auto sequence_of = [&](uint16_t at) { return flight.sequence_at(at, tx.una); };
  bool any = false;
  while (!flight.in_flight.empty()) {
    const uint16_t at = flight.in_flight.oldest;
    if (now - flight.at(at).sent < rto) break;
    flight.paths.on_timeout(flight.at(at).path, now);
    lose(peer, sequence_of(at), {.now = now, .reason = congestion::Loss::Reason::timeout});
    any = true;
  }
  if (any) {
    count(Count::timeouts);
    // Packets that left one by one are overdue one by one: that is one time-out.
    if (now - tx.backed_off_at < rto) return;
    tx.backed_off_at = now;
    tx.backoff = static_cast<uint8_t>(std::min(tx.backoff + 1, kOtherPaths + kMostDoublings));
    return;
  }
  if (flight.in_flight.empty() || now < tail_at(tx)) return;
  ++tx.probes;
  tx.jitter = static_cast<uint8_t>(random_.below(256));
  flight.flow.allow_one();  // that grants of credit were lost is as likely
  count(Count::tail_probes);
  const uint16_t oldest = flight.in_flight.oldest;
  flight.paths.on_loss(flight.at(oldest).path, now);
  if (flight.at(oldest).counts()) flight.flow.forget(flight.at(oldest).length);
  lose(peer, sequence_of(oldest));
}

// When the oldest packet is sent once more if nothing arrives until then. While nothing is known of
// the round trip, all of the first window may be lost: then one packet after the other, more and
// more seldom, and not when others do that began at the same time.
Instant Engine::tail_at(const Sender& tx) const noexcept {
  if (tx.rtt.ps == 0) {
    const Duration after = config_.least_rto / 256 * ((256 + tx.jitter) * int64_t{1} << tx.probes);
    return after < config_.first_rto ? tx.progress_at + after : Instant::never();
  }
  if (tx.probes != 0) return Instant::never();
  return std::max(tx.flight->at(tx.flight->in_flight.oldest).sent, tx.progress_at) +
         std::max(config_.least_rto, tx.rtt * 2);
}

// When this peer has to be looked at next.
void Engine::rearm(Peer& peer, Instant now) noexcept {
  Sender& tx = peer.tx;
  Instant next = peer.rx.ack_at > now ? peer.rx.ack_at : Instant::never();
  if (tx.flight != nullptr && !tx.flight->in_flight.empty()) {
    const Record& oldest = tx.flight->at(tx.flight->in_flight.oldest);
    next = std::min({next, oldest.sent + patience_of(peer), tail_at(tx)});
    next = std::min(next, overtaken_at(tx, oldest));
  } else if (tx.flight != nullptr && tx.una != tx.next) {
    next = std::min(next, now + config_.least_rto);  // everything is lost and waits for the port
  } else if (tx.awaiting != 0) {
    next = std::min(next, tx.probe_answers_at);
  }
  if (tx.flight != nullptr && tx.una != tx.next) next = std::min(next, tx.flight->flow.deadline());
  if (tx.resting != 0) {
    for (const Message* m = tx.all; m != nullptr; m = m->next_all)
      if (m->state == Message::State::resting) next = std::min(next, m->resume_at);
  }
  if (!next.is_never()) arm(peer, std::max(next, now + Duration::from_us(1)));
}

}  // namespace weft::srd
