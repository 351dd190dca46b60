// SPDX-License-Identifier: BSD-3-Clause
// Streams of peers: which packets begin one, and the end of one.
//
// A stream to us is identified by its epoch, which grows by one from each stream of a process to
// the next. A newer epoch replaces the stream that is known, and discards what is half done; an
// older one was delayed in the network. Packets of other processes do not get here: they name
// another incarnation (introduce.cpp).
#include "lib/srd/receive/receive.hpp"

namespace weft::srd {

namespace {

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

void end_introduction(ReceiveContext& ctx, Peer& peer) noexcept {
  erase_aliases(ctx, peer);
  peer.introduced.ended = peer.introduced.incarnation;
  peer.introduced.incarnation = 0;
  if (peer.rx.known) end_receive_stream(ctx, peer);
}

Peer* admit_stream(ReceiveContext& ctx, Peer* peer, const Arrival& arrival) noexcept {
  const wire::SrdPacket& p = arrival.packet;
  if (peer == nullptr || p.incarnation != peer->introduced.incarnation || p.incarnation == 0) {
    peer = introduce(ctx, peer, arrival);
    if (peer == nullptr) return nullptr;
  }
  Receiver& rx = peer->rx;
  if (rx.known && rx.epoch == p.epoch) return peer;
  const wire::SrdIntroduction* const introduction = p.introduction;
  if (introduction == nullptr || p.epoch == 0 || (rx.known && !newer(p.epoch, rx.epoch)))
    return ctx.count(Count::rx_stale_stream), nullptr;
  const uint64_t first = introduction->first;
  if (p.sequence < first || p.sequence - first >= kWindow)
    return ctx.count(Count::rx_out_of_window), nullptr;
  if (rx.known) {
    ctx.count(Count::streams_replaced);
    end_receive_stream(ctx, *peer);
  }
  WEFT_DCHECK(!rx.known && rx.assemblies == 0);
  rx.known = true;
  rx.epoch = p.epoch;
  rx.window = ReceiveWindow(first);
  return peer;
}

}  // namespace weft::srd
