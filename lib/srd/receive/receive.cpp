// SPDX-License-Identifier: BSD-3-Clause
// A packet arrives: parse, trailer, endpoint, stream, place in the stream, execution. Each "no" is
// a counter; until the packet is known to be fresh nothing changes.
#include <algorithm>

#include "lib/srd/engine.hpp"
#include "lib/wire/opcode.hpp"

namespace weft::srd {

namespace {

constexpr size_t kMostReplies = 256;  // that wait to leave; more are lost, as on a wire
constexpr uint32_t kStrangers = 4;    // one in so many peers may be one

Count parse_count(wire::SrdError error) {
  switch (error) {
    case wire::SrdError::too_short:
      return Count::rx_too_short;
    case wire::SrdError::bad_version:
      return Count::rx_bad_version;
    case wire::SrdError::bad_opcode:
      return Count::rx_bad_opcode;
    default:
      return Count::rx_bad_payload;
  }
}

bool newer(uint32_t a, uint32_t b) { return static_cast<int32_t>(a - b) > 0; }

}  // namespace

void Engine::receive_one(const Frame& frame, Instant now) noexcept {
  count(Count::rx_packets);
  const uint32_t elsewhere = frame.remote_length + frame.more_length;
  count(Count::rx_bytes, frame.length + elsewhere);
  if (wire::is_trimmed(frame.path->traffic_class)) return receive_trimmed(frame, now);
  wire::SrdPacket packet;
  const uint32_t trailer = checks_icrc() ? wire::kIcrcLength : 0;
  const wire::SrdError error =
      wire::srd_parse(frame.bytes, frame.length, trailer, elsewhere, packet);
  if (error != wire::SrdError::none) return count(parse_count(error));
  //= threat:A12 before any state is touched
  if (trailer != 0 && !verify_icrc(frame, wire::kSrdUdpPort)) return count(Count::rx_icrc_error);
  if (packet.dest.value >> 16 != block_) return count(Count::rx_bad_dest_qpn);
  if (frame.ecn == 3) count(Count::rx_ecn_marked);
  if (packet.opcode == wire::SrdOpcode::rails) return on_rails(frame, packet, now);
  Arrival arrival{packet, frame, now};
  if (!find_origin(arrival)) return count(Count::rx_unknown_peer);
  Peer* const peer = arrival.peer;
  if (wire::is_sequenced(packet.opcode)) return on_sequenced(peer, arrival);
  if (peer == nullptr) return count(Count::rx_unknown_peer);
  if (packet.opcode == wire::SrdOpcode::acknowledge) {
    on_acknowledge(*peer, arrival);
  } else if (packet.opcode == wire::SrdOpcode::refusal) {
    on_refusal(*peer, arrival);
  } else if (packet.opcode == wire::SrdOpcode::ready) {
    on_ready(*peer, arrival);
  } else if (packet.opcode == wire::SrdOpcode::trimmed) {
    on_trimmed(*peer, arrival);
  } else {
    on_reset(*peer, arrival);
  }
}

void Engine::on_sequenced(Peer* peer, const Arrival& arrival) noexcept {
  peer = admit(peer, arrival);
  if (peer == nullptr) return;
  const wire::SrdPacket& p = arrival.packet;
  Receiver& rx = peer->rx;
  const uint16_t duplicates = rx.duplicates;
  peer->used_at = arrival.now;
  switch (rx.window.place_of(p.sequence)) {
    case ReceiveWindow::Place::beyond:
      return count(Count::rx_out_of_window);
    case ReceiveWindow::Place::duplicate:
      count(Count::rx_duplicates);
      ++rx.duplicates;
      break;
    case ReceiveWindow::Place::fresh: {
      if (rx.window.refused(p.sequence) && p.opcode != wire::SrdOpcode::fill)
        return refuse(arrival, wire::SrdReason::busy);
      if (config_.polices && over_credit(rx, p)) return count(Count::rx_over_credit);
      wire::SrdReason why = wire::SrdReason::none;
      const Outcome outcome = execute(*peer, arrival, why);
      if (outcome == Outcome::refused) {
        rx.window.refuse(p.sequence);
        return refuse(arrival, why);
      }
      if (outcome == Outcome::dropped) return;
      if (rx.window.holes() || p.sequence != rx.window.next()) count(Count::rx_out_of_sequence);
      rx.window.accept(p.sequence);
      rx.received_bytes += p.payload_length;
      break;
    }
  }
  // Only who has got an answer from us: a forged wish would have us grant to its victim.
  //= threat:A16
  if (p.has(wire::srd_flag::kWish) && p.incarnation == peer->incarnation)
    hear_wish(*peer, p, arrival.now);
  rx.ack_pending = true;
  rx.ecn = arrival.frame.ecn == 3;
  if (rx.ecn) ++rx.marks;
  rx.digest = p.digest;
  rx.path = p.path;
  rx.way = arrival.way;
  rx.path_sequence = p.path_sequence;
  rx.echo = static_cast<uint32_t>(p.sequence);
  rx.arrived = arrival.now;
  const bool more = rx.duplicates != duplicates || tells_more(rx, p);
  if (more || !ack_may_wait(*peer, arrival)) queue_ack(*peer, arrival.now);
  if (more || streams(p)) rx.ack_patience.hasten(turn_);
}

// The peer whose live stream this packet belongs to, perhaps a new one; null: to none.
//
// A stream of ours is known by its epoch. A packet that names another incarnation was meant for a
// process that is dead. A newer epoch replaces the stream that we have, and loses what is half
// done, so it is believed only from one who has got an answer from us: our incarnation is the
// proof. The same proof is asked for a first stream that began before we were opened: its packet
// may have been parked in the network since the time of the process before us. //= threat:A25
Peer* Engine::admit(Peer* peer, const Arrival& arrival) noexcept {
  const wire::SrdPacket& p = arrival.packet;
  const Gid& source = arrival.frame.path->source;
  const bool introduced =
      p.incarnation != 0 &&
      p.incarnation ==
          (peer != nullptr ? peer->incarnation : incarnation_for(source, p.source.value >> 16));
  if (p.epoch == 0) return count(Count::rx_stale_stream), nullptr;
  const bool known = peer != nullptr && peer->rx.known;
  // Its sender has had an earlier stream, which named nobody; a copy of that may still come, or
  // has.
  if (p.incarnation != 0 && !introduced) {
    count(Count::rx_other_incarnation);
    if (!known && (challenged_ == 0 || newer(p.epoch, challenged_))) challenged_ = p.epoch;
    return reset(arrival, known ? peer->rx.epoch + 1 : 0), nullptr;
  }
  if (!known && !introduced && newer(opened_, p.epoch)) {
    count(Count::rx_stale_stream);
    return reset(arrival, p.epoch), nullptr;
  }
  //= threat:A17 no state for one more who may not even exist
  // Whoever was challenged stays so: what was refused of a stream goes again in another one, and
  // so would what was executed of it meanwhile.
  const bool crowded = peer == nullptr && strangers_ >= config_.max_peers / kStrangers;
  const bool challenged = challenged_ != 0 && !newer(p.epoch, challenged_);
  if (!known && !introduced && (crowded || challenged)) {
    if (!challenged) challenged_ = p.epoch;
    count(Count::peers_challenged);
    return reset(arrival, p.epoch), nullptr;
  }
  //= threat:A25 what is forgotten is not heard again
  if (!known && retired_ != 0 && !newer(p.epoch, retired_)) {
    count(Count::rx_stale_stream);
    return reset(arrival, retired_ + 1), nullptr;
  }
  if (peer == nullptr) {
    peer = add_peer(source, p.source.value >> 16);
    if (peer == nullptr) return count(Count::rx_unknown_peer), nullptr;
    peer->stranger = true;
    ++strangers_;
  }
  if (introduced) meet(*peer);
  Receiver& rx = peer->rx;
  if (rx.known && rx.epoch == p.epoch) return peer;
  if (!rx.known) {
    // A peer that we never heard before.
  } else if (!newer(p.epoch, rx.epoch)) {
    count(Count::rx_stale_stream);
    return reset(arrival, rx.epoch + 1), nullptr;
  } else if (!introduced) {
    return reset(arrival, p.epoch), nullptr;
  } else {
    count(Count::streams_replaced);
    forget_stream(*peer);
  }
  rx.known = true;
  rx.epoch = p.epoch;
  peer->tx.anew = peer->tx.una == peer->tx.next;
  return peer;
}

// The peer's old stream is over: what it sent in part goes, and its requests get no answers. Ours
// may still get theirs, in the new one; if the process that had them is dead, it turns out when we
// ask (expect_answer).
void Engine::forget_stream(Peer& peer) noexcept {
  const auto theirs = [&peer](const Assembly& a) { return a.name >> 32 == peer.index + 1; };
  assemblies_.drain(theirs, [this](Assembly& a) {
    give_back(a);
    assemblies_.remove(&a);
  });
  for (Message* m = peer.tx.all; m != nullptr;) {
    Message* const next = m->next_all;
    if (m->answer()) cancel(*m);
    m = next;
  }
  end_credit(peer.rx);
  end_order(peer.rx);
  const uint32_t answers = peer.rx.answers;
  peer.rx = Receiver{};
  peer.rx.answers = answers;
}

void Engine::refuse(const Arrival& arrival, wire::SrdReason reason) noexcept {
  count(reason == wire::SrdReason::no_receive ? Count::tx_rnr_naks : Count::tx_naks);
  if (reason == wire::SrdReason::access) count(Count::access_errors);
  wire::SrdPacket p;
  p.opcode = wire::SrdOpcode::refusal;
  p.detail = static_cast<uint8_t>(reason);
  reply(arrival, p);
}

void Engine::reset(const Arrival& arrival, uint32_t least_epoch) noexcept {
  count(Count::tx_resets);
  wire::SrdPacket p;
  p.opcode = wire::SrdOpcode::reset;
  p.message = least_epoch;
  p.opened = opened_;
  reply(arrival, p);
}

// `answer` speaks about the packet that has arrived.
void Engine::reply(const Arrival& arrival, wire::SrdPacket answer) noexcept {
  const wire::SrdPacket& p = arrival.packet;
  const Gid& to = arrival.frame.path->source;
  answer.path = p.path;
  answer.path_sequence = p.path_sequence;
  answer.dest = QpNum{p.source.value & 0xFF0000};
  answer.source = QpNum{block_ << 16};
  answer.epoch = p.epoch;
  answer.incarnation = arrival.peer != nullptr ? arrival.peer->incarnation
                                               : incarnation_for(to, p.source.value >> 16);
  answer.sequence = p.sequence;
  put_reply({{to, arrival.way.local}, answer});
}

void Engine::put_reply(const Reply& reply) noexcept {
  if (replies_.size() < kMostReplies) replies_.push_back(reply);
}

}  // namespace weft::srd
