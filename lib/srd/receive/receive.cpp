// SPDX-License-Identifier: BSD-3-Clause
// A packet arrives: parse, ICRC, endpoint, stream, place in the stream, execution. Each failed
// check is a counter; until the packet is known to be fresh no state changes.
#include "lib/srd/receive/receive.hpp"

#include <algorithm>

#include "lib/wire/liveness_request.hpp"
#include "lib/wire/opcode.hpp"

namespace weft::srd {

namespace {

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

void on_sequenced(ReceiveContext& ctx, Peer* peer, const Arrival& arrival) noexcept {
  peer = admit_stream(ctx, peer, arrival);
  if (peer == nullptr) return;
  const wire::SrdPacket& p = arrival.packet;
  Receiver& rx = peer->rx;
  WEFT_DCHECK(rx.known && rx.epoch == p.epoch);
  bool duplicate = false;
  peer->used_at = arrival.now;
  switch (rx.window.place_of(p.sequence)) {
    case ReceiveWindow::Place::beyond:
      return ctx.count(Count::rx_out_of_window);
    case ReceiveWindow::Place::duplicate:
      ctx.count(Count::rx_duplicates);
      ++rx.duplicates;
      duplicate = true;
      break;
    case ReceiveWindow::Place::fresh: {
      if (rx.window.refused(p.sequence) && p.opcode != wire::SrdOpcode::fill)
        return queue_refusal(ctx, arrival, wire::SrdReason::busy);
      if (ctx.config.police_credit && exceeds_credit(ctx, rx, p))
        return ctx.count(Count::rx_over_credit);
      wire::SrdReason why = wire::SrdReason::none;
      const Outcome outcome = execute(ctx, *peer, arrival, why);
      if (outcome == Outcome::refused) {
        WEFT_DCHECK(why != wire::SrdReason::none);
        rx.window.refuse(p.sequence);
        if (why == wire::SrdReason::access || why == wire::SrdReason::queue_key)
          peer->guesses.note(arrival.now);
        return queue_refusal(ctx, arrival, why);
      }
      if (outcome == Outcome::dropped) return;
      if (rx.window.holes() || p.sequence != rx.window.next()) ctx.count(Count::rx_out_of_sequence);
      rx.window.accept(p.sequence);
      rx.received_bytes += p.payload_length;
      break;
    }
  }
  // Of a peer whose address is validated: a forged request would have us grant to its victim.
  //= threat:A16
  if (p.has(wire::srd_flag::kCreditRequest)) on_credit_request(ctx, *peer, p, arrival.now);
  acknowledge_packet(ctx, *peer, arrival, duplicate);
}

}  // namespace

ReceiveContext::ReceiveContext(Port& port, const Config& given, base::SecureRandom& random)
    : SendContext(port, given, random), credit(config.credit) {
  frame_paths.start(port, random, config.paths, std::max(64u, capabilities_.burst));
  uses_rails = frame_paths.multi_homed();
  replies.reserve(kMostReplies);
  incarnations.draw(random);
  aliases = decltype(aliases)(0, AliasHash{incarnations.hash_seed()});
}

void receive_frame(ReceiveContext& ctx, const Frame& frame, Instant now) noexcept {
  ctx.count(Count::rx_packets);
  const uint32_t external_payload_length = frame.remote_length + frame.more_length;
  ctx.count(Count::rx_bytes, frame.length + external_payload_length);
  if (wire::is_trimmed(frame.path->traffic_class)) return receive_trimmed(ctx, frame, now);
  wire::SrdPacket packet;
  const uint32_t icrc_length = ctx.icrc_length(*frame.path);
  const wire::SrdError error =
      wire::srd_parse(frame.bytes, frame.length, icrc_length, external_payload_length, packet);
  if (error != wire::SrdError::none) {
    if (wire::LivenessRequest::is_of_srd(frame.bytes, frame.length)) return;
    return ctx.count(parse_count(error));
  }
  //= threat:A12 before any state is touched
  if (icrc_length != 0 && !ctx.has_valid_icrc(frame)) return ctx.count(Count::rx_icrc_error);
  if (packet.dest.value >> 16 != ctx.qpn_prefix) return ctx.count(Count::rx_bad_dest_qpn);
  if (frame.ecn == 3) ctx.count(Count::rx_ecn_marked);
  if (packet.opcode == wire::SrdOpcode::rails) return on_rails(ctx, frame, packet, now);
  Arrival arrival{packet, frame, now};
  if (!find_source(ctx, arrival)) return ctx.count(Count::rx_unknown_peer);
  Peer* const peer = arrival.peer;
  if (wire::is_sequenced(packet.opcode)) return on_sequenced(ctx, peer, arrival);
  if (packet.opcode == wire::SrdOpcode::hello) return on_hello(ctx, arrival);
  if (peer == nullptr) return ctx.count(Count::rx_unknown_peer);
  if (packet.opcode == wire::SrdOpcode::acknowledge) {
    on_acknowledge(ctx, *peer, arrival);
  } else if (packet.opcode == wire::SrdOpcode::refusal) {
    on_refusal(ctx, *peer, arrival);
  } else if (packet.opcode == wire::SrdOpcode::ready) {
    on_ready(ctx, *peer, arrival);
  } else if (packet.opcode == wire::SrdOpcode::trimmed) {
    on_trimmed(ctx, *peer, arrival);
  } else if (packet.opcode == wire::SrdOpcode::welcome) {
    on_welcome(ctx, *peer, arrival);
  } else {
    WEFT_DCHECK(packet.opcode == wire::SrdOpcode::reset);
    on_reset(ctx, *peer, arrival);
  }
}

}  // namespace weft::srd
