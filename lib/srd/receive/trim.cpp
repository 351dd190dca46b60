// SPDX-License-Identifier: BSD-3-Clause
// Frames that a full switch trimmed to their headers instead of dropping them: the receiver reports
// at once which packet it was, and the sender retransmits that on another path without waiting for
// a gap or the RTO.
//
// Nothing of a trimmed frame is protected: its ICRC was cut off. So it changes no state here, and
// is answered by one small packet; that makes a sender retransmit one packet which is in flight on
// that path with that path sequence number.
#include "lib/srd/receive/receive.hpp"

namespace weft::srd {

//= threat:A11 a forged one costs a small answer, no state
void receive_trimmed(ReceiveContext& ctx, const Frame& frame, Instant now) noexcept {
  ctx.count(Count::rx_trimmed);
  if (frame.length < sizeof(wire::SrdBase)) return ctx.count(Count::rx_too_short);
  const auto& base = *reinterpret_cast<const wire::SrdBase*>(frame.bytes);
  if (base.version() != wire::kSrdVersion) return ctx.count(Count::rx_bad_version);
  wire::SrdPacket p;
  wire::srd_take_base(base, p);
  if (!wire::is_sequenced(p.opcode)) return ctx.count(Count::rx_bad_opcode);
  if (p.dest.value >> 16 != ctx.qpn_prefix) return ctx.count(Count::rx_bad_dest_qpn);
  Arrival arrival{p, frame, now};
  if (!find_source(ctx, arrival)) return ctx.count(Count::rx_unknown_peer);
  const Peer* const peer = arrival.peer;
  if (p.incarnation == 0) return ctx.count(Count::rx_other_incarnation);
  if (peer != nullptr && peer->introduced.incarnation != 0 &&
      p.incarnation != peer->introduced.incarnation)
    return ctx.count(Count::rx_other_incarnation);
  if (peer != nullptr && peer->rx.known && peer->rx.epoch == p.epoch &&
      peer->rx.window.place_of(p.sequence) == ReceiveWindow::Place::duplicate)
    return ctx.count(Count::rx_duplicates);
  wire::SrdPacket answer;
  answer.opcode = wire::SrdOpcode::trimmed;
  answer.digest = p.digest;
  answer.detail = frame.path->traffic_class >> 2 == wire::kTrimmedLastHopDscp ? 1 : 0;
  queue_reply(ctx, arrival, answer);
}

}  // namespace weft::srd
