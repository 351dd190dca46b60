// SPDX-License-Identifier: BSD-3-Clause
// What leaves without a sequence number: acknowledgements (one per peer and burst, for all that has
// come), and one-packet replies to packets that were not executed.
#include <algorithm>
#include <cstring>

#include "lib/srd/engine.hpp"

namespace weft::srd {

void Engine::send_replies() noexcept {
  size_t sent = 0;
  for (; sent < replies_.size() && room(); ++sent) {
    const auto& [turn, packet, challenge] = replies_[sent];
    if (packet.opcode == wire::SrdOpcode::rails) {
      send_rails(packet, turn, challenge, true);
      continue;
    }
    const Path& path = path_of(turn.to, turn.local, source_port_of(turn.local, packet.path), 0);
    std::byte* at = builder_.start(path, wire::srd_emit_length(packet), 0);
    wire::srd_emit(at, packet, 0);
    builder_.finish();
  }
  replies_.erase(replies_.begin(), replies_.begin() + static_cast<ptrdiff_t>(sent));
}

bool Engine::flush_pending_ack(QueuePair&) noexcept {
  for (const std::unique_ptr<Peer>& peer : peers_)
    if (peer != nullptr && !peer->rx.ack_at.is_never()) acks_.push(*peer);
  acks_first_ = true;
  return !acks_.empty() || !replies_.empty();
}

// Whether its acknowledgement tells the sender something else than that a packet came.
bool Engine::tells_more(const Receiver& rx, const wire::SrdPacket& p) noexcept {
  return rx.ecn || p.has(wire::srd_flag::kRetransmission) || p.incarnation == 0 ||
         p.opcode == wire::SrdOpcode::fill;
}

// More comes after it, whatever we answer.
bool Engine::streams(const wire::SrdPacket& p) noexcept {
  return p.has(wire::srd_flag::kFragment) || !p.has(wire::srd_flag::kAckRequest);
}

// Whether the acknowledgement of a packet may wait for others: not if the sender asks for it.
bool Engine::ack_may_wait(Peer& peer, const Arrival& arrival) noexcept {
  if (config_.ack_every <= 1) return false;
  Receiver& rx = peer.rx;
  const wire::SrdPacket& p = arrival.packet;
  if (++rx.unanswered >= config_.ack_every || p.has(wire::srd_flag::kAckRequest)) return false;
  if (rx.ack_at.is_never()) rx.ack_at = arrival.now + config_.ack_delay;
  arm(peer, rx.ack_at);
  return true;
}

void Engine::send_acks(Instant now) noexcept {
  while (!acks_.empty() && room()) {
    Peer& peer = acks_.pop();
    if (peer.rx.ack_pending) send_ack(peer, now);
    if (addresses_.size() > 1) tell_of_rails(peer);
  }
}

// What has been received is acknowledged with the next transmit(), or after the answer.
void Engine::queue_ack(Peer& peer, Instant now) noexcept {
  Receiver& rx = peer.rx;
  if (config_.answer_first.ps != 0) {
    rx.ack_patience.queue(peer.ack_line.listed, turn_);
    if (rx.ack_at.is_never()) rx.ack_at = now + config_.answer_first;
  }
  acks_.push(peer);
}

// Data for a peer has left while an acknowledgement for it waits.
void Engine::let_wait_behind(Peer& peer, size_t frames) noexcept {
  Receiver& rx = peer.rx;
  if (frames == 0 || !peer.ack_line.listed || !rx.ack_pending) return;
  if (rx.ack_patience.goes_behind(frames, turn_)) rx.ack_patience.hasten(turn_);
}

// Those that have waited long enough.
void Engine::send_due_acks(Instant now) noexcept {
  const Peer* const stop = acks_.back();
  while (!acks_.empty() && room()) {
    Peer& peer = acks_.pop();
    Receiver& rx = peer.rx;
    if (rx.ack_pending && !rx.ack_patience.due(turn_) && now < rx.ack_at) {
      acks_.push(peer);
    } else {
      if (rx.ack_pending) {
        rx.ack_patience.on_due();
        send_ack(peer, now);
      }
      if (addresses_.size() > 1) tell_of_rails(peer);
    }
    if (&peer == stop) break;
  }
}

// It travels on the path that the echoed packet took.
void Engine::send_ack(Peer& peer, Instant now) noexcept {
  Receiver& rx = peer.rx;
  rx.ack_pending = false;
  rx.unanswered = 0;
  rx.ack_patience.on_sent();
  rx.ack_at = Instant::never();
  wire::SrdPacket p;
  p.opcode = wire::SrdOpcode::acknowledge;
  p.path = rx.path;
  p.path_sequence = rx.path_sequence;
  p.detail = rx.digest;
  p.epoch = rx.epoch;
  p.incarnation = peer.incarnation;
  p.sequence = rx.window.next();
  p.dest = peer.endpoint();
  p.source = QpNum{block_ << 16};
  wire::SrdAck ack;
  ack.echo = rx.echo;
  ack.received_bytes = rx.received_bytes;
  ack.delay_ns =
      static_cast<uint32_t>(std::clamp<int64_t>((now - rx.arrived).ns(), 0, int64_t{UINT32_MAX}));
  ack.duplicates = rx.duplicates;
  ack.flags = rx.ecn ? 1 : 0;
  ack.marks = rx.marks;
  ack.granted = rx.granted;
  const uint32_t words = std::min(rx.window.words(), wire::kSrdMostWords);
  ack.words = static_cast<uint8_t>(words);
  const Path& path = path_of(address_of(peer, rx.way.remote), rx.way.local,
                             source_port_of(rx.way.local, rx.path), capabilities_.ecn ? 2 : 0);
  const uint32_t length = static_cast<uint32_t>(sizeof ack) + 8 * words;
  std::byte* at = builder_.start(path, wire::srd_emit_length(p) + length, 0);
  at = wire::srd_emit(at, p, 0);
  std::memcpy(at, &ack, sizeof ack);
  at += sizeof ack;
  for (uint32_t w = 0; w < words; ++w, at += 8) {
    const base::Be64 word = rx.window.word(w);
    std::memcpy(at, &word, sizeof word);
  }
  builder_.finish();
  count(Count::tx_acks);
}

}  // namespace weft::srd
