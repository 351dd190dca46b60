// SPDX-License-Identifier: BSD-3-Clause
// The stream to a peer: which packet goes next, on which path, and what it is made of. What was
// lost goes first, on another path than before.
#include <algorithm>
#include <cstring>

#include "lib/base/memory_permitting.hpp"
#include "lib/memory/guarded_copy.hpp"
#include "lib/srd/engine.hpp"

namespace weft::srd {

namespace {
constexpr uint32_t kQuantum = 32;    // packets of one peer before the next has its turn
constexpr uint32_t kTrain = 16;      // packets in a row on one path where the port forms trains
constexpr uint32_t kBulkTurn = 16;   // packets of a long message before the next one has its turn
constexpr uint32_t kMostTurns = 8;   // long messages that take turns
constexpr uint32_t kUrgentRun = 64;  // packets of urgent messages before one of another
constexpr uint8_t kEcnCapable = 2;   // ECT(0)
constexpr uint64_t kAskBelow = 8;    // packets in the window: each asks for an acknowledgement
constexpr uint32_t kMostFlights = 1024;  // that peers keep while nothing is on the way
constexpr uint32_t kMostLarge = 64;      // with room for more than a few packets
constexpr Duration kMemoryAgain = Duration::from_ms(1);  // when there was none
}  // namespace

// False: there is no memory for it; the peer is looked at again soon.
bool Engine::begin_flight(Peer& peer, Instant now) noexcept {
  Sender& tx = peer.tx;
  if (tx.epoch == 0) {
    tx.epoch = epoch_at(now);
    if (peer.least_epoch != 0 && static_cast<int32_t>(tx.epoch - peer.least_epoch) < 0)
      tx.epoch = peer.least_epoch;
    if (tx.since == 0) tx.since = tx.epoch;
  }
  if (tx.una == tx.next) {
    if (tx.flight != nullptr) tx.flight->flow.on_deadline(now);
    tx.progress_at = now;
    tx.backoff = 0;
    tx.probes = 0;
  }
  if (tx.flight != nullptr) return true;
  const bool made = base::memory_permitting([&] {
    std::unique_ptr<Flight> flight = flights_.take();
    flight->paths.start(config_.policy, entropies_, kWindow, random_.next64());
    if (peer.rails != nullptr) flight->paths.grow(peer.rails->joined());
    flight->paths.count_packets(config_.path_counters);
    tx.flight = std::move(flight);
  });
  if (!made) return arm(peer, now + kMemoryAgain), false;
  ++flights_out_;
  tx.flight->flow.start(flow_rules_);
  tx.train_left = 0;
  return true;
}

// Everything is acknowledged. What is known of the paths is kept unless very many peers are.
void Engine::end_flight(Peer& peer) noexcept {
  if (flights_out_ > kMostFlights) return drop_flight(peer);
  if (flights_out_ > kMostLarge) peer.tx.flight->shrink();
}

void Engine::drop_flight(Peer& peer) noexcept {
  if (peer.tx.flight == nullptr) return;
  --flights_out_;
  peer.tx.flight->clear(peer.tx.una, peer.tx.next);
  flights_.give(std::move(peer.tx.flight));
}

void Engine::send_peer(Peer& peer, Instant now) noexcept {
  Sender& tx = peer.tx;
  renew(peer, now);
  if (tx.flight != nullptr && tx.una != tx.next) probe_paths(peer, now);
  if (uses_rails_) ask_for_ways(peer, now);
  for (uint32_t sent = 0;; ++sent) {
    if (sent == kQuantum || !room()) return activate(peer);
    const bool lost = tx.flight != nullptr && !tx.flight->lost.empty();
    const uint16_t index = lost ? tx.flight->lost.oldest : RecordList::kNone;
    // A fill costs the network nothing worth counting, and others wait for it.
    const bool fill = lost && tx.flight->at(index).kind == Record::Kind::fill;
    if (tx.flight != nullptr && !fill && !tx.flight->flow.open(now))
      return arm(peer, opens_at(tx, now));
    if (!lost) {
      if (!send_next(peer, now)) return;
      if (tx.quiet() && tx.flight->lost.empty()) return;
      continue;
    }
    const uint64_t sequence = tx.flight->sequence_at(index, tx.una);
    tx.flight->remove(tx.flight->lost, sequence);
    const uint8_t path = tx.flight->paths.choose_other(tx.flight->at(index).path, now);
    send_record(peer, sequence, path, now);
  }
}

// The message whose turn it is, or null. Urgent ones go first, but do not stop the others. Long
// messages take turns with each other, and with the short ones, so that neither waits for the end
// of the other.
Message* Engine::next_message(Sender& tx) noexcept {
  while (tx.turns_taken < kMostTurns && !tx.bulk.empty()) {
    tx.turns.push(tx.bulk.pop());
    ++tx.turns_taken;
  }
  const bool others = !tx.small.empty() || !tx.turns.empty();
  if (tx.hurries() && (!others || tx.urgent_run < kUrgentRun)) {
    ++tx.urgent_run;
    return tx.urgent[tx.urgent[0].empty()].front();
  }
  tx.urgent_run = 0;
  const bool bulk_first = tx.small_run >= kBulkTurn;
  if (!tx.small.empty() && (tx.turns.empty() || !bulk_first)) {
    ++tx.small_run;
    return tx.small.front();
  }
  if (tx.turns.empty()) return nullptr;
  if (++tx.turn_packets >= kBulkTurn) {
    tx.turn_packets = 0;
    tx.small_run = 0;
    tx.turns.push(tx.turns.pop());
  }
  return tx.turns.front();
}

// One new packet. False: there is none, or it may not go now.
bool Engine::send_next(Peer& peer, Instant now) noexcept {
  Sender& tx = peer.tx;
  if (tx.next - tx.una >= kWindow) return false;
  Message* const m = next_message(tx);
  if (m == nullptr) return false;
  if (!begin_flight(peer, now)) return false;
  Record* const record = tx.flight->begin(tx.una, tx.next);
  if (record == nullptr) return false;  // acknowledgements make room
  Record& r = *record;
  const uint64_t sequence = tx.next++;
  r.message = m;
  ++m->unacked;
  bool last = true;
  if (m->state == Message::State::aborting) {
    r.kind = Record::Kind::abort;
  } else {
    r.offset = m->cursor;
    r.length = std::min(mtu_, m->payload() - m->cursor);
    m->cursor += r.length;
    last = m->cursor == m->payload();
    if (m->wants_answer()) m->first_sequence = sequence;
  }
  if (last) {
    delist(*m);
    if (m->state == Message::State::queued) m->state = Message::State::sent;
  }
  send_record(peer, sequence, choose_path(peer, now), now);
  return true;
}

// Takes a message out of the line that it stands in.
void Engine::delist(Message& m) noexcept {
  Sender& tx = m.peer->tx;
  if (tx.urgent[0].remove(m) || tx.urgent[1].remove(m)) return;
  if (tx.small.remove(m) || tx.later.remove(m) || tx.adds.remove(m)) return;
  if (tx.turns.remove(m)) {
    --tx.turns_taken;
    return;
  }
  tx.bulk.remove(m);
}

// A packet without content finds out whether a resting path is well again; if it is lost, nobody
// waits for it.
void Engine::probe_paths(Peer& peer, Instant now) noexcept {
  Sender& tx = peer.tx;
  if (!room() || tx.next - tx.una >= kWindow / 2) return;
  const uint32_t path = tx.flight->paths.take_probe(now);
  if (path == PathSet::kNone) return;
  Record* const record = tx.flight->begin(tx.una, tx.next);
  if (record == nullptr) return;
  count(Count::path_probes);
  record->kind = Record::Kind::fill;
  send_record(peer, tx.next++, static_cast<uint8_t>(path), now);
}

uint8_t Engine::choose_path(Peer& peer, Instant now) noexcept {
  Sender& tx = peer.tx;
  if (tx.train_left == 0) {
    tx.train_left = std::min(kTrain, std::max(1u, capabilities_.train_frames));
    tx.train_path = tx.flight->paths.choose(now);
  }
  --tx.train_left;
  return tx.train_path;
}

// Sends the packet of a record, for the first time or again.
void Engine::send_record(Peer& peer, uint64_t sequence, uint8_t path, Instant now) noexcept {
  Sender& tx = peer.tx;
  Record& r = (*tx.flight)[sequence];
  if (r.tries != 0) {
    count(Count::tx_retransmits);
    r.before_us = static_cast<uint32_t>(std::clamp<int64_t>((now - r.sent).us(), 0, UINT32_MAX));
  }
  r.tries = static_cast<uint8_t>(std::min(r.tries + 1, 255));
  r.path = path;
  r.path_sequence = tx.flight->paths.take_sequence(path);
  r.sent = now;
  r.state = Record::State::in_flight;
  tx.flight->append(tx.flight->in_flight, sequence);
  if (r.counts()) tx.flight->flow.on_sent(r.length, now);
  arm(peer, now + config_.least_rto);
  if (build(peer, r, sequence)) return;
  // Memory of ours is gone or was never there: the message ends, its packets become fills.
  r.message->status = Status::local_protection_error;
  cancel(*r.message);
}

bool Engine::build(Peer& peer, Record& r, uint64_t sequence) noexcept {
  const Message* const m = r.message;
  wire::SrdPacket p;
  p.path = r.path;
  p.path_sequence = r.path_sequence;
  p.epoch = peer.tx.epoch;
  p.incarnation = peer.tx.incarnation;
  p.sequence = sequence;
  p.dest = peer.endpoint();
  p.source = QpNum{block_ << 16};
  if (r.tries > 1) p.flags |= wire::srd_flag::kRetransmission;
  if (peer.tx.quiet() || peer.tx.flight->flow.window() < kAskBelow * mtu_)
    p.flags |= wire::srd_flag::kAckRequest;
  if (r.kind == Record::Kind::fill) {
    p.opcode = wire::SrdOpcode::fill;
    count(Count::tx_fills);
  } else if (r.kind == Record::Kind::abort) {
    p.opcode = wire::SrdOpcode::abort;
    p.message = m->id;
    p.order = m->order;
    if (m->ordered) p.flags |= wire::srd_flag::kOrdered;
    p.detail = m->retry ? 0 : 1;
    count(Count::tx_aborts);
  } else {
    describe(*m, r, p);
  }
  if (peer.tx.flight->flow.credited()) {
    p.flags |= wire::srd_flag::kWish;
    p.wish = wish_of(peer.tx);
  }
  const uint32_t operands = wire::operand_bytes(p.opcode);
  const Way way = way_of(peer, r.path);
  const unsigned traffic_class = m != nullptr ? m->traffic_class : 0;
  const Path& path =
      path_of(address_of(peer, way.remote), way.local, source_port_of(way.local, r.path),
              static_cast<uint8_t>(traffic_class | (capabilities_.ecn ? kEcnCapable : 0u)));
  std::byte* at = builder_.start(path, wire::srd_emit_length(p) + operands, r.length);
  at = wire::srd_emit(at, p, builder_.pad_for(r.length));
  if (operands == 8) {
    const base::Be64 value = m->operand;
    std::memcpy(at, &value, sizeof value);
  } else if (operands != 0) {
    const wire::SrdOperands both{m->operand, m->swap};
    std::memcpy(at, &both, sizeof both);
  }
  if (r.length != 0 && !add_payload(*m, r.offset, r.length, r.tries == 1)) {
    builder_.cancel();
    return false;
  }
  builder_.finish();
  return true;
}

// The headers of a packet of data.
void Engine::describe(const Message& m, const Record& r, wire::SrdPacket& p) const noexcept {
  p.opcode = m.kind;
  p.detail = m.takes_receive() ? static_cast<uint8_t>(others_wait(m)) : m.detail;
  p.dest = m.dest;
  p.source = m.source;
  p.message = m.answer() ? m.request_id : m.id;
  p.length = m.length;
  p.offset = r.offset;
  p.address = m.address + r.offset;
  p.rkey = m.rkey;
  p.immediate = m.immediate;
  if (m.solicited) p.flags |= wire::srd_flag::kSolicited;
  if (m.has_immediate) p.flags |= wire::srd_flag::kImmediate;
  if (m.ordered) p.flags |= wire::srd_flag::kOrdered;
  p.order = m.order;
  const bool cut = m.kind == wire::SrdOpcode::read_response && m.length > mtu_;
  if (cut || m.kind == wire::SrdOpcode::read_request || m.assembled(mtu_))
    p.flags |= wire::srd_flag::kFragment;
}

bool Engine::add_payload(const Message& m, uint32_t offset, uint32_t length, bool first) noexcept {
  std::byte* where;
  if (m.answer()) {
    return keys_.check(m.rkey, m.domain, m.address + offset, length, Access::remote_read, &where) ==
               memory::Verdict::ok &&
           builder_.add_payload(where, length, first);
  }
  if (m.is_inline) {
    builder_.add_safe_payload(m.inline_data + offset, length);
    return true;
  }
  for (uint32_t i = 0; length != 0; ++i) {
    const Sge& sge = m.sges[i];
    if (offset >= sge.length) {
      offset -= sge.length;
      continue;
    }
    const uint32_t piece = std::min(length, sge.length - offset);
    const uint64_t address = reinterpret_cast<uint64_t>(sge.address) + offset;
    if (keys_.check(sge.lkey.value, m.domain, address, piece, Access::none, &where) !=
        memory::Verdict::ok)
      return false;
    if (!builder_.add_payload(where, piece, first)) return false;
    length -= piece;
    offset = 0;
  }
  return true;
}

std::vector<PathReport> Engine::paths(const Gid& address, QpNum number) {
  const Peer* const peer = find_peer(address, number.value >> 16);
  std::vector<PathReport> reports;
  if (peer == nullptr || peer->tx.flight == nullptr) return reports;
  for (uint32_t i = 0; i < peer->tx.flight->paths.count(); ++i) {
    reports.push_back(peer->tx.flight->paths.report(i));
    const Way way = way_of(*peer, i);
    reports.back().source_port = source_port_of(way.local, i);
    reports.back().source = addresses_[way.local];
    reports.back().destination = address_of(*peer, way.remote);
  }
  return reports;
}

// A path that lives as long as the frames of this burst. Frames that follow each other on the same
// one share it, so that they can form a train.
const Path& Engine::path_of(const Gid& to, uint8_t local, uint16_t source_port,
                            uint8_t traffic_class) noexcept {
  if (paths_used_ != 0) {
    const Path& last = paths_[paths_used_ - 1];
    if (last.source_port == source_port && last.destination == to &&
        last.traffic_class == traffic_class && last.source == addresses_[local])
      return last;
  }
  Path& path = paths_[paths_used_++];
  path.source = addresses_[local];
  path.destination = to;
  path.source_port = source_port;
  path.destination_port = wire::kSrdUdpPort;
  path.traffic_class = traffic_class;
  return path;
}

}  // namespace weft::srd
