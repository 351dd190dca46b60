// SPDX-License-Identifier: BSD-3-Clause
// Streams of peers: which packets begin one, which are challenged, and the end of one.
//
// A stream to us is identified by its epoch. A packet that names another incarnation was meant for
// a process that is dead. A newer epoch replaces the stream that is known, and discards what is
// half done, so it is accepted only from a peer that names our incarnation (address validation).
// The same is required of a first stream that began before we were opened: its packet may have been
// delayed in the network since the time of the process before us. //= threat:A25
#include "lib/srd/receive/receive.hpp"

namespace weft::srd {

namespace {

constexpr uint32_t kUnvalidatedShare = 4;  // at most one peer in four is not validated

bool newer(uint32_t a, uint32_t b) { return static_cast<int32_t>(a - b) > 0; }

}  // namespace

// Outstanding requests of ours may still get their responses, in the new stream; if the process
// that had them is dead, a liveness probe finds out.
void end_receive_stream(ReceiveContext& ctx, Peer& peer) noexcept {
  const auto from_peer = [&peer](const Assembly& a) {
    return AssemblyTable::peer_of(a.name) == peer.index;
  };
  ctx.assemblies.drain(from_peer, [&ctx](Assembly& a) {
    return_receive(ctx, a);
    ctx.assemblies.remove(&a);
  });
  for (Message* m = peer.tx.messages; m != nullptr;) {
    Message* const older = m->older;
    if (m->is_response()) cancel_message(ctx, *m);
    m = older;
  }
  end_credit(ctx, peer.rx);
  end_ordered_receives(ctx, peer.rx);
  const uint32_t responses = peer.rx.responses;
  peer.rx = Receiver{};
  peer.rx.responses = responses;
}

Peer* admit_stream(ReceiveContext& ctx, Peer* peer, const Arrival& arrival) noexcept {
  const wire::SrdPacket& p = arrival.packet;
  const Gid& source = arrival.frame.path->source;
  const bool validated =
      p.incarnation != 0 && p.incarnation == (peer != nullptr ? peer->incarnation
                                                              : ctx.incarnations.incarnation_for(
                                                                    source, p.source.value >> 16));
  if (p.epoch == 0) return ctx.count(Count::rx_stale_stream), nullptr;
  Admission& admission = ctx.admission;
  const bool known = peer != nullptr && peer->rx.known;
  // Its sender had an earlier stream, which named no incarnation; a copy of that may still arrive,
  // or has arrived.
  if (p.incarnation != 0 && !validated) {
    ctx.count(Count::rx_other_incarnation);
    if (!known && (admission.challenged_epoch == 0 || newer(p.epoch, admission.challenged_epoch)))
      admission.challenged_epoch = p.epoch;
    return queue_reset(ctx, arrival, known ? peer->rx.epoch + 1 : 0), nullptr;
  }
  if (!known && !validated && newer(ctx.opened_epoch, p.epoch)) {
    ctx.count(Count::rx_stale_stream);
    return queue_reset(ctx, arrival, p.epoch), nullptr;
  }
  //= threat:A17 no state for one more source address that may be forged
  // What was challenged remains so: the packets of a refused stream are sent again in another one,
  // and so would those be that were executed meanwhile.
  const bool unvalidated_full =
      peer == nullptr && admission.unvalidated >= ctx.config.max_peers / kUnvalidatedShare;
  const bool challenged =
      admission.challenged_epoch != 0 && !newer(p.epoch, admission.challenged_epoch);
  if (!known && !validated && (unvalidated_full || challenged)) {
    if (!challenged) admission.challenged_epoch = p.epoch;
    ctx.count(Count::peers_challenged);
    return queue_reset(ctx, arrival, p.epoch), nullptr;
  }
  //= threat:A25 a stream that was forgotten is not accepted again
  if (!known && admission.retired_epoch != 0 && !newer(p.epoch, admission.retired_epoch)) {
    ctx.count(Count::rx_stale_stream);
    return queue_reset(ctx, arrival, admission.retired_epoch + 1), nullptr;
  }
  if (peer == nullptr) {
    peer = add_peer(ctx, source, p.source.value >> 16);
    if (peer == nullptr) return ctx.count(Count::rx_unknown_peer), nullptr;
    peer->unvalidated = true;
    ++admission.unvalidated;
  }
  if (validated) mark_validated(ctx, *peer);
  Receiver& rx = peer->rx;
  if (rx.known && rx.epoch == p.epoch) return peer;
  if (rx.known) {
    if (!newer(p.epoch, rx.epoch)) {
      ctx.count(Count::rx_stale_stream);
      return queue_reset(ctx, arrival, rx.epoch + 1), nullptr;
    }
    if (!validated) return queue_reset(ctx, arrival, p.epoch), nullptr;
    ctx.count(Count::streams_replaced);
    end_receive_stream(ctx, *peer);
  }
  WEFT_DCHECK(!rx.known && rx.assemblies == 0 && rx.window.next() == 0);
  rx.known = true;
  rx.epoch = p.epoch;
  peer->tx.idle_since_peer_stream = peer->tx.una == peer->tx.next;
  return peer;
}

}  // namespace weft::srd
