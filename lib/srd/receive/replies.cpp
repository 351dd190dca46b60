// SPDX-License-Identifier: BSD-3-Clause
// One-packet replies to packets that were not executed. They wait for the next transmit().
#include "lib/srd/receive/receive.hpp"

namespace weft::srd {

void queue_reply(ReceiveContext& ctx, const Reply& reply) noexcept {
  WEFT_DCHECK(ctx.replies.capacity() >= ReceiveContext::kMostReplies);
  if (ctx.replies.size() < ReceiveContext::kMostReplies) ctx.replies.push_back(reply);
}

void queue_reply(ReceiveContext& ctx, const Arrival& arrival, wire::SrdPacket answer) noexcept {
  const wire::SrdPacket& p = arrival.packet;
  const Gid& to = arrival.frame.path->source;
  answer.path = p.path;
  answer.path_sequence = p.path_sequence;
  answer.dest = QpNum{p.source.value & 0xFF0000};
  answer.source = ctx.endpoint();
  answer.epoch = p.epoch;
  answer.incarnation = p.incarnation;
  answer.sequence = p.sequence;
  queue_reply(ctx, {{to, arrival.route.local, arrival.frame.path->in_memory}, answer});
}

void queue_refusal(ReceiveContext& ctx, const Arrival& arrival, wire::SrdReason reason) noexcept {
  WEFT_DCHECK(wire::is_sequenced(arrival.packet.opcode) && reason != wire::SrdReason::none);
  ctx.count(reason == wire::SrdReason::no_receive ? Count::tx_rnr_naks : Count::tx_naks);
  if (reason == wire::SrdReason::access) ctx.count(Count::access_errors);
  wire::SrdPacket p;
  p.opcode = wire::SrdOpcode::refusal;
  p.detail = static_cast<uint8_t>(reason);
  queue_reply(ctx, arrival, p);
}

void queue_reset(ReceiveContext& ctx, const Arrival& arrival, bool perhaps_executed) noexcept {
  WEFT_DCHECK(wire::is_sequenced(arrival.packet.opcode));
  ctx.count(Count::tx_resets);
  wire::SrdPacket p;
  p.opcode = wire::SrdOpcode::reset;
  p.detail = perhaps_executed ? 1 : 0;
  queue_reply(ctx, arrival, p);
}

void send_replies(ReceiveContext& ctx) noexcept {
  size_t sent = 0;
  for (; sent < ctx.replies.size() && ctx.has_room(); ++sent) {
    auto& [to, packet, challenge, hello] = ctx.replies[sent];
    if (packet.opcode == wire::SrdOpcode::welcome) packet.hello = &hello;
    if (packet.opcode == wire::SrdOpcode::rails) {
      send_rails_packet(ctx, packet, to, challenge, true);
      continue;
    }
    const Path& path = ctx.frame_paths.of(
        to.address, to.local, ctx.frame_paths.source_port(to.local, packet.path), 0, to.in_memory);
    std::byte* at = ctx.builder().start(path, wire::srd_emit_length(packet), 0);
    wire::srd_emit(at, packet, 0);
    ctx.builder().finish();
  }
  ctx.replies.erase(ctx.replies.begin(), ctx.replies.begin() + static_cast<ptrdiff_t>(sent));
}

}  // namespace weft::srd
