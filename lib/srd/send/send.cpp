// SPDX-License-Identifier: BSD-3-Clause
// The stream to a peer: which packet is sent next, and on which path. Lost packets go first, on
// another path than before.
#include "lib/srd/send/send.hpp"

#include <algorithm>

#include "lib/base/memory_permitting.hpp"

namespace weft::srd {

namespace {

constexpr uint32_t kQuantum = 32;        // packets of one peer before the next is served
constexpr uint32_t kTrain = 16;          // packets in a row on one path where the port forms trains
constexpr uint32_t kMostFlights = 1024;  // kept by peers that have nothing in flight
constexpr uint32_t kMostLarge = 64;      // of those with room for more than a few packets
constexpr int kFirstBits = 47;           // of a stream's first number: half of them are left
constexpr Duration kMemoryRetry = Duration::from_ms(1);

std::optional<HostQueue> own_queue_of(const Config& config) {
  if (!config.congestion || config.congestion->kind->signal != congestion::Signal::digest)
    return std::nullopt;
  return HostQueue(config.congestion->line_rate, config.congestion->base_rtt_ns);
}

uint8_t choose_path(SendContext& ctx, Peer& peer, Instant now) noexcept {
  Sender& tx = peer.tx;
  if (tx.train_left == 0) {
    tx.train_left = std::min(kTrain, std::max(1u, ctx.capabilities().train_frames));
    tx.train_path = tx.flight->paths.choose(now);
  }
  --tx.train_left;
  return tx.train_path;
}

// Sends the packet of a record, for the first time or again.
void send_packet(SendContext& ctx, Peer& peer, uint64_t sequence, uint8_t path,
                 Instant now) noexcept {
  Sender& tx = peer.tx;
  WEFT_DCHECK(tx.una <= sequence && sequence < tx.next && ctx.has_room());
  Record& r = (*tx.flight)[sequence];
  WEFT_DCHECK(r.state == Record::State::free || r.state == Record::State::lost);
  if (r.tries != 0) {
    ctx.count(Count::tx_retransmits);
    r.before_us = static_cast<uint32_t>(std::clamp<int64_t>((now - r.sent).us(), 0, UINT32_MAX));
  }
  r.tries = static_cast<uint8_t>(std::min(r.tries + 1, 255));
  r.path = path;
  r.path_sequence = tx.flight->paths.take_sequence(path);
  r.sent = now;
  r.state = Record::State::in_flight;
  tx.flight->append(tx.flight->in_flight, sequence);
  if (r.counts()) tx.flight->flow.on_sent(r.length, now);
  ctx.arm(peer, now + ctx.config.least_rto);
  if (build_packet(ctx, peer, r, sequence)) return;
  // Local memory cannot be read: the message ends, its packets become fills.
  WEFT_DCHECK(r.message != nullptr);
  r.message->status = Status::local_protection_error;
  cancel_message(ctx, *r.message);
}

// One new packet. False: there is none, or it may not be sent now.
bool send_new_packet(SendContext& ctx, Peer& peer, Instant now) noexcept {
  Sender& tx = peer.tx;
  if (tx.unacked() >= kWindow) return false;
  Message* const m = tx.queues.next();
  if (m == nullptr) return false;
  if (!begin_flight(ctx, peer, now)) return false;
  Record* const record = tx.flight->begin(tx.una, tx.next);
  if (record == nullptr) return false;  // acknowledgements make room
  WEFT_DCHECK(m->peer == &peer && m->line.listed);
  Record& r = *record;
  const uint64_t sequence = tx.next++;
  r.message = m;
  ++m->unacked;
  bool last = true;
  if (m->state == Message::State::aborting) {
    r.kind = Record::Kind::abort;
  } else {
    WEFT_DCHECK(m->state == Message::State::queued && m->cursor <= m->payload_length());
    r.offset = m->cursor;
    r.length = std::min(ctx.mtu, m->payload_length() - m->cursor);
    m->cursor += r.length;
    last = m->cursor == m->payload_length();
    if (m->expects_response()) m->first_sequence = sequence;
  }
  if (last) {
    tx.queues.remove(*m);
    if (m->state == Message::State::queued) m->state = Message::State::sent;
  }
  send_packet(ctx, peer, sequence, choose_path(ctx, peer, now), now);
  return true;
}

// A fill finds out whether a suspended path works again; if it is lost, no message waits for it.
void probe_paths(SendContext& ctx, Peer& peer, Instant now) noexcept {
  Sender& tx = peer.tx;
  if (!ctx.has_room() || tx.unacked() >= kWindow / 2) return;
  const uint32_t path = tx.flight->paths.take_probe(now);
  if (path == PathSet::kNone) return;
  Record* const record = tx.flight->begin(tx.una, tx.next);
  if (record == nullptr) return;
  ctx.count(Count::path_probes);
  record->kind = Record::Kind::fill;
  send_packet(ctx, peer, tx.next++, static_cast<uint8_t>(path), now);
}

// When a sender whose flow is closed tries again: at its pace, or when it has received nothing for
// so long that it requests credit again; never() if an acknowledgement of what is in flight will
// open it.
Instant next_send_time(SendContext& ctx, const Sender& tx, Instant now) noexcept {
  if (tx.flight->flow.wake_at() > now) return tx.flight->flow.wake_at();
  if (!tx.flight->flow.credited() || !tx.flight->in_flight.empty()) return Instant::never();
  return now + std::max(ctx.config.least_rto, tx.rtt.smoothed * 2);
}

}  // namespace

SendContext::SendContext(Port& port, const Config& given, base::SecureRandom& random)
    : Context(port, given, random),
      messages(random.next32()),
      own_queue(own_queue_of(config)),
      flow_rules{.preset = config.congestion ? &*config.congestion : nullptr,
                 .own_queue = own_queue ? &*own_queue : nullptr,
                 .halve_on_loss = !config.congestion && config.halve_on_loss,
                 .absorbed = capabilities_.in_flight_limit,
                 .packet_overhead = capabilities_.packet_overhead,
                 .mtu = mtu} {}

bool begin_flight(SendContext& ctx, Peer& peer, Instant now) noexcept {
  Sender& tx = peer.tx;
  if (tx.epoch == 0) {
    WEFT_DCHECK(tx.una == 0 && tx.next == 0 && tx.flight == nullptr);
    if (peer.last_epoch == 0) peer.last_epoch = ctx.random().next32();
    peer.last_epoch += peer.last_epoch != UINT32_MAX ? 1 : 2;
    tx.epoch = peer.last_epoch;
    tx.first = tx.una = tx.next = ctx.random().next64() >> (64 - kFirstBits);
  }
  if (tx.una == tx.next) {
    if (tx.flight != nullptr) tx.flight->flow.on_deadline(now);
    tx.recovery.progress_at = now;
    tx.recovery.backoff = 0;
    tx.recovery.tail_probes = 0;
  }
  if (tx.flight != nullptr) return true;
  WEFT_DCHECK(tx.una == tx.next);
  const bool made = base::memory_permitting([&] {
    std::unique_ptr<Flight> flight = ctx.flights.take();
    flight->paths.start(ctx.config.policy, ctx.frame_paths.ports_per_address(), kWindow,
                        ctx.random().next64());
    if (peer.rails != nullptr) flight->paths.grow(peer.rails->joined());
    flight->paths.count_packets(ctx.config.path_counters);
    tx.flight = std::move(flight);
  });
  if (!made) return ctx.arm(peer, now + kMemoryRetry), false;
  ++ctx.flights_in_use;
  tx.flight->flow.start(ctx.flow_rules);
  tx.train_left = 0;
  return true;
}

void end_flight(SendContext& ctx, Peer& peer) noexcept {
  WEFT_DCHECK(peer.tx.una == peer.tx.next && peer.tx.flight != nullptr);
  WEFT_DCHECK(peer.tx.flight->in_flight.empty() && peer.tx.flight->lost.empty());
  if (ctx.flights_in_use > kMostFlights) return drop_flight(ctx, peer);
  if (ctx.flights_in_use > kMostLarge) peer.tx.flight->shrink();
}

void drop_flight(SendContext& ctx, Peer& peer) noexcept {
  if (peer.tx.flight == nullptr) return;
  WEFT_DCHECK(ctx.flights_in_use > 0);
  --ctx.flights_in_use;
  peer.tx.flight->clear(peer.tx.una, peer.tx.next);
  ctx.flights.give(std::move(peer.tx.flight));
}

void add_message(SendContext& ctx, Message& m) noexcept {
  Peer& peer = *m.peer;
  m.older = peer.tx.messages;
  if (peer.tx.messages != nullptr) peer.tx.messages->newer = &m;
  m.newer = nullptr;
  peer.tx.messages = &m;
  if (m.expects_response()) ++peer.tx.awaiting_response;
  peer.tx.queues.push(m, ctx.mtu);
  ctx.activate(peer);
}

void send_to_peer(SendContext& ctx, Peer& peer, Instant now) noexcept {
  Sender& tx = peer.tx;
  renew_stream(ctx, peer, now);
  if (tx.incarnation() == 0) return send_hello(ctx, peer, now);
  if (tx.flight != nullptr && tx.una != tx.next) probe_paths(ctx, peer, now);
  if (ctx.uses_rails) request_routes(ctx, peer, now);
  for (uint32_t sent = 0;; ++sent) {
    if (sent == kQuantum || !ctx.has_room()) return ctx.activate(peer);
    const bool lost = tx.flight != nullptr && !tx.flight->lost.empty();
    const uint16_t index = lost ? tx.flight->lost.oldest : RecordList::kNone;
    // A fill costs the network nothing worth counting, and the stream waits for it.
    const bool fill = lost && tx.flight->at(index).kind == Record::Kind::fill;
    if (tx.flight != nullptr && !fill && !tx.flight->flow.open(now))
      return ctx.arm(peer, next_send_time(ctx, tx, now));
    if (!lost) {
      if (!send_new_packet(ctx, peer, now)) return;
      if (tx.queues.empty() && tx.flight->lost.empty()) return;
      continue;
    }
    const uint64_t sequence = tx.flight->sequence_at(index, tx.una);
    tx.flight->remove(tx.flight->lost, sequence);
    const uint8_t path = tx.flight->paths.choose_other(tx.flight->at(index).path, now);
    send_packet(ctx, peer, sequence, path, now);
  }
}

}  // namespace weft::srd
