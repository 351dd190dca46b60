// SPDX-License-Identifier: BSD-3-Clause
// Who is who: hello, welcome, and the introduction in the first packets of a stream. An unknown
// endpoint gets an incarnation, which costs no memory; only a packet that names it makes its sender
// known.
// lib/srd/README.md says why nothing is executed twice when either process is another one.
#include "lib/base/check.hpp"
#include "lib/srd/receive/receive.hpp"

namespace weft::srd {

//= threat:A17 no state, and no more bytes than the hello has
void on_hello(ReceiveContext& ctx, const Arrival& arrival) noexcept {
  const wire::SrdPacket& p = arrival.packet;
  WEFT_DCHECK(p.opcode == wire::SrdOpcode::hello && p.hello != nullptr);
  const Gid& source = arrival.frame.path->source;
  const uint32_t prefix = p.source.value >> 16;
  ctx.count(Count::peers_challenged);
  Reply reply;
  reply.to = {source, arrival.route.local};
  reply.packet.opcode = wire::SrdOpcode::welcome;
  reply.packet.path = p.path;
  reply.packet.dest = QpNum{p.source.value & 0xFF0000};
  reply.packet.source = ctx.endpoint();
  reply.packet.incarnation = p.hello->incarnation;
  const uint64_t stamp = ctx.incarnations.take_stamp(arrival.now);
  reply.hello.stamp = p.hello->stamp;
  reply.hello.process = ctx.incarnations.process_for(source, prefix);
  reply.hello.incarnation = ctx.incarnations.issue(source, prefix, stamp);
  reply.hello.issued = stamp;
  queue_reply(ctx, reply);
}

// The process that answers was alive at some time after our hello; the one whose streams we accept,
// when we issued its incarnation.
void on_welcome(ReceiveContext& ctx, Peer& peer, const Arrival& arrival) noexcept {
  const wire::SrdPacket& p = arrival.packet;
  WEFT_DCHECK(p.opcode == wire::SrdOpcode::welcome && p.hello != nullptr);
  const wire::SrdHello& hello = *p.hello;
  if (!ctx.incarnations.accepts(p.incarnation, peer.address, peer.qpn_prefix, hello.stamp,
                                arrival.now))
    return ctx.count(Count::rx_other_incarnation);
  Welcome& welcome = peer.tx.welcome;
  if (welcome.incarnation != 0 || welcome.hellos == 0 || hello.incarnation == 0)
    return ctx.count(Count::rx_stale_response);
  Introduced& known = peer.introduced;
  if (known.incarnation != 0 && known.process != hello.process) {
    if (hello.stamp <= known.stamp) {  // either may be the dead one: ask again
      welcome.hello_at = arrival.now;
      return ctx.activate(peer);
    }
    end_introduction(ctx, peer);
  }
  welcome = {.incarnation = hello.incarnation,
             .stamp = hello.issued,
             .process = hello.process,
             .learned = ctx.incarnations.take_stamp(arrival.now)};
  WEFT_DCHECK(welcome.learned != 0 && welcome.hellos == 0);
  ctx.activate(peer);
}

//= threat:A25 what was meant for another process, or for a stream that was forgotten
Peer* introduce(ReceiveContext& ctx, Peer* peer, const Arrival& arrival) noexcept {
  const wire::SrdPacket& p = arrival.packet;
  const Gid& source = arrival.frame.path->source;
  const uint32_t prefix = p.source.value >> 16;
  const auto refuse = [&]() -> Peer* {
    ctx.count(Count::rx_other_incarnation);
    queue_reset(ctx, arrival, peer != nullptr && p.incarnation == peer->introduced.ended);
    return nullptr;
  };
  if (p.incarnation == 0) return ctx.count(Count::rx_other_incarnation), nullptr;
  if (p.introduction == nullptr) return refuse();
  const uint64_t stamp = p.introduction->stamp;
  if (!ctx.incarnations.accepts(p.incarnation, source, prefix, stamp, arrival.now)) return refuse();
  const uint64_t process = p.introduction->process;
  if (peer == nullptr) {
    peer = add_peer(ctx, source, prefix);
    if (peer == nullptr) return ctx.count(Count::rx_unknown_peer), nullptr;
  }
  // What is refused once is refused as long as its stamp is fresh: its sender sends everything
  // again under another incarnation.
  peer->used_at = arrival.now;
  Introduced& known = peer->introduced;
  if (stamp <= known.stamp) return refuse();
  const Welcome& welcome = peer->tx.welcome;
  const bool other = welcome.incarnation != 0 && welcome.process != process;
  if (other && stamp <= welcome.learned) {  // which of the two is dead is not known
    known.stamp = stamp;
    return refuse();
  }
  if (known.incarnation != 0) {
    ctx.count(Count::streams_replaced);
    end_introduction(ctx, *peer);
  }
  known = {.incarnation = p.incarnation, .stamp = stamp, .process = process};
  if (other) lose_process(ctx, *peer);
  WEFT_DCHECK(peer->introduced.incarnation == p.incarnation && p.incarnation != 0);
  return peer;
}

}  // namespace weft::srd
