// SPDX-License-Identifier: BSD-3-Clause
// Packets that a full switch has cut to their headers instead of dropping them: the receiver tells
// the sender at once which one it was, and that goes again on another path without waiting for a
// gap or a time-out.
//
// Nothing of a cut packet is checked by its trailer, which is gone. So it changes nothing here, and
// is answered with one small packet; that makes a sender repeat one packet which it has on that
// path just now, under the number that it has on it.
#include "lib/srd/engine.hpp"

namespace weft::srd {

//= threat:A11 a forged one costs a small answer, no state
void Engine::receive_trimmed(const Frame& frame, Instant now) noexcept {
  count(Count::rx_trimmed);
  if (frame.length < sizeof(wire::SrdBase)) return count(Count::rx_too_short);
  const auto& base = *reinterpret_cast<const wire::SrdBase*>(frame.bytes);
  if (base.version() != wire::kSrdVersion) return count(Count::rx_bad_version);
  wire::SrdPacket p;
  wire::srd_take_base(base, p);
  if (!wire::is_sequenced(p.opcode)) return count(Count::rx_bad_opcode);
  const Gid& source = frame.path->source;
  const uint32_t block = p.source.value >> 16;
  if (p.dest.value >> 16 != block_) return count(Count::rx_bad_dest_qpn);
  Arrival arrival{p, frame, now};
  if (!find_origin(arrival)) return count(Count::rx_unknown_peer);
  const Peer* const peer = arrival.peer;
  const uint32_t ours = peer != nullptr ? peer->incarnation : incarnation_for(source, block);
  if (p.incarnation != 0 && p.incarnation != ours) return count(Count::rx_other_incarnation);
  if (peer != nullptr && peer->rx.known && peer->rx.epoch == p.epoch &&
      peer->rx.window.place_of(p.sequence) == ReceiveWindow::Place::duplicate)
    return count(Count::rx_duplicates);
  wire::SrdPacket answer;
  answer.opcode = wire::SrdOpcode::trimmed;
  answer.digest = p.digest;
  answer.detail = frame.path->traffic_class >> 2 == wire::kTrimmedLastHopDscp ? 1 : 0;
  reply(arrival, answer);
}

void Engine::on_trimmed(Peer& peer, const Arrival& arrival) noexcept {
  const wire::SrdPacket& p = arrival.packet;
  Sender& tx = peer.tx;
  if (p.epoch != tx.epoch || tx.flight == nullptr) return count(Count::rx_stale_response);
  if (p.sequence < tx.una || p.sequence >= tx.next) return count(Count::rx_stale_response);
  if (tx.incarnation != 0 && tx.incarnation != p.incarnation)
    return count(Count::rx_other_incarnation);
  const Record& r = (*tx.flight)[p.sequence];
  if (r.state != Record::State::in_flight || r.path != p.path || r.path_sequence != p.path_sequence)
    return count(Count::rx_stale_response);
  count(Count::trim_losses);
  const bool last_hop = p.detail == 1;
  tx.flight->paths.on_trimmed(r.path, last_hop, arrival.now);
  lose(peer, p.sequence,
       {.now = arrival.now,
        .rtt = arrival.now - r.sent,
        .reason = congestion::Loss::Reason::trimmed,
        .last_hop = last_hop,
        .digest = p.digest});
  rearm(peer, arrival.now);
}

}  // namespace weft::srd
