// SPDX-License-Identifier: BSD-3-Clause
// Acknowledgements: one per peer and burst, for all that was received; coalesced over bursts
// (Config::ack_every), or delayed until the application's response has left
// (Config::ack_piggyback_delay).
#include <algorithm>
#include <cstring>

#include "lib/srd/receive/receive.hpp"

namespace weft::srd {

namespace {

// The acknowledgement carries more information than that a packet arrived.
bool carries_more(const Receiver& rx, const wire::SrdPacket& p) noexcept {
  return rx.echo.ecn || p.has(wire::srd_flag::kRetransmission) || p.introduction != nullptr ||
         p.opcode == wire::SrdOpcode::fill;
}

// The sender has more to send, whatever the application responds.
bool more_follows(const wire::SrdPacket& p) noexcept {
  return p.has(wire::srd_flag::kFragment) || !p.has(wire::srd_flag::kAckRequest);
}

// ACK coalescing: the acknowledgement may wait for later packets.
bool may_coalesce(ReceiveContext& ctx, Peer& peer, const Arrival& arrival) noexcept {
  if (ctx.config.ack_every <= 1) return false;
  Receiver& rx = peer.rx;
  const wire::SrdPacket& p = arrival.packet;
  if (++rx.unacked_packets >= ctx.config.ack_every || p.has(wire::srd_flag::kAckRequest))
    return false;
  if (rx.ack_at.is_never()) rx.ack_at = arrival.now + ctx.config.ack_delay;
  ctx.arm(peer, rx.ack_at);
  return true;
}

// It travels on the path of the echoed packet.
void send_ack(ReceiveContext& ctx, Peer& peer, Instant now) noexcept {
  Receiver& rx = peer.rx;
  WEFT_DCHECK(rx.known && rx.ack_pending && ctx.has_room());
  const Echo& echo = rx.echo;
  rx.ack_pending = false;
  rx.unacked_packets = 0;
  rx.ack_delay.on_sent();
  rx.ack_at = Instant::never();
  wire::SrdPacket p;
  p.opcode = wire::SrdOpcode::acknowledge;
  p.path = echo.path;
  p.path_sequence = echo.path_sequence;
  p.detail = echo.digest;
  p.epoch = rx.epoch;
  p.incarnation = peer.introduced.incarnation;
  p.sequence = rx.window.next();
  p.dest = peer.endpoint();
  p.source = ctx.endpoint();
  wire::SrdAck ack;
  ack.echo = echo.sequence;
  ack.received_bytes = rx.received_bytes;
  ack.delay_ns =
      static_cast<uint32_t>(std::clamp<int64_t>((now - echo.arrived).ns(), 0, int64_t{UINT32_MAX}));
  ack.duplicates = rx.duplicates;
  ack.flags = echo.ecn ? 1 : 0;
  ack.marks = rx.ecn_marks;
  ack.granted = rx.credit_granted;
  const uint32_t words = std::min(rx.window.words(), wire::kSrdMostWords);
  ack.words = static_cast<uint8_t>(words);
  const Path& path =
      ctx.path_to(peer, echo.route, ctx.frame_paths.source_port(echo.route.local, echo.path),
                  ctx.capabilities().ecn ? 2 : 0);
  const uint32_t length = static_cast<uint32_t>(sizeof ack) + 8 * words;
  std::byte* at = ctx.builder().start(path, wire::srd_emit_length(p) + length, 0);
  at = wire::srd_emit(at, p, 0);
  std::memcpy(at, &ack, sizeof ack);
  at += sizeof ack;
  for (uint32_t w = 0; w < words; ++w, at += 8) {
    const base::Be64 word = rx.window.word(w);
    std::memcpy(at, &word, sizeof word);
  }
  ctx.builder().finish();
  ctx.count(Count::tx_acks);
}

}  // namespace

void acknowledge_packet(ReceiveContext& ctx, Peer& peer, const Arrival& arrival,
                        bool duplicate) noexcept {
  const wire::SrdPacket& p = arrival.packet;
  Receiver& rx = peer.rx;
  WEFT_DCHECK(rx.window.place_of(p.sequence) == ReceiveWindow::Place::duplicate);
  rx.ack_pending = true;
  rx.echo.ecn = arrival.frame.ecn == 3;
  if (rx.echo.ecn) ++rx.ecn_marks;
  rx.echo.digest = p.digest;
  rx.echo.path = p.path;
  rx.echo.route = arrival.route;
  rx.echo.path_sequence = p.path_sequence;
  rx.echo.sequence = static_cast<uint32_t>(p.sequence);
  rx.echo.arrived = arrival.now;
  const bool more = duplicate || carries_more(rx, p);
  if (more || !may_coalesce(ctx, peer, arrival)) queue_ack(ctx, peer, arrival.now);
  if (more || more_follows(p)) rx.ack_delay.hasten(ctx.acks.turn);
}

void queue_ack(ReceiveContext& ctx, Peer& peer, Instant now) noexcept {
  Receiver& rx = peer.rx;
  if (ctx.config.ack_piggyback_delay.ps != 0) {
    rx.ack_delay.queue(peer.ack_link.listed, ctx.acks.turn);
    if (rx.ack_at.is_never()) rx.ack_at = now + ctx.config.ack_piggyback_delay;
  }
  ctx.acks.queue.push(peer);
}

void delay_ack_behind_data(ReceiveContext& ctx, Peer& peer, size_t frames) noexcept {
  Receiver& rx = peer.rx;
  if (frames == 0 || !peer.ack_link.listed || !rx.ack_pending) return;
  if (rx.ack_delay.goes_behind(frames, ctx.acks.turn)) rx.ack_delay.hasten(ctx.acks.turn);
}

void send_acks(ReceiveContext& ctx, Instant now) noexcept {
  while (!ctx.acks.queue.empty() && ctx.has_room()) {
    Peer& peer = ctx.acks.queue.pop();
    if (peer.rx.ack_pending) send_ack(ctx, peer, now);
    if (ctx.frame_paths.multi_homed()) announce_addresses(ctx, peer);
  }
}

void send_due_acks(ReceiveContext& ctx, Instant now) noexcept {
  const Peer* const stop = ctx.acks.queue.back();
  while (!ctx.acks.queue.empty() && ctx.has_room()) {
    Peer& peer = ctx.acks.queue.pop();
    Receiver& rx = peer.rx;
    if (rx.ack_pending && !rx.ack_delay.due(ctx.acks.turn) && now < rx.ack_at) {
      ctx.acks.queue.push(peer);
    } else {
      if (rx.ack_pending) {
        rx.ack_delay.on_due();
        send_ack(ctx, peer, now);
      }
      if (ctx.frame_paths.multi_homed()) announce_addresses(ctx, peer);
    }
    if (&peer == stop) break;
  }
}

}  // namespace weft::srd
