// SPDX-License-Identifier: BSD-3-Clause
// The reliable-connection service: free functions over (Engine, QueuePair, packet). Requests travel
// requester_send -> wire -> responder; answers travel responder_reply -> wire -> requester_ack.
// Each file one step; this page lists them.
#pragma once

#include "lib/roce/engine.hpp"
#include "lib/roce/message/receive.hpp"
#include "lib/roce/state/queue_pair.hpp"
#include "lib/roce/state/transport_names.hpp"
#include "lib/transport/frame_builder.hpp"
#include "lib/wire/parse.hpp"

namespace weft::roce::rc {

// What one packet of `entry` costs of the window: its bytes and the receiver's overhead for it.
inline uint64_t cost_of(const QueuePair& qp, const SendEntry& entry) noexcept {
  return (entry.packets == 1 ? entry.length : qp.mtu()) + qp.destination->packet_overhead;
}

// requester_send.cpp: sends requests of `qp` while there is room, window and leave.
Served send_requests(Engine& engine, QueuePair& qp, FrameBuilder& out, uint32_t quantum,
                     Instant now) noexcept;

// requester_ack.cpp: an ACK, NAK, READ response or atomic response.
void on_response(Engine& engine, QueuePair& qp, const wire::Packet& packet, const Frame& frame,
                 Instant now) noexcept;

// requester_retry.cpp
// Goes back: the next packet sent is `psn`, una <= psn <= next.
void rewind(Engine& engine, QueuePair& qp, uint64_t psn) noexcept;
// The timer of `qp` fired: retransmission time-out, end of an RNR wait, or too early.
void on_timer(Engine& engine, QueuePair& qp, Instant now) noexcept;
void apply_pacing(Engine& engine, QueuePair& qp) noexcept;
// A paced packet left, `late` after its time if it waited for that; else negative.
void note_departure(Engine& engine, Duration late) noexcept;
// The pacer holds what is next: the queue pair comes back in time.
void wait_for_pacer(Engine& engine, QueuePair& qp, Instant now) noexcept;
// The peer's network marked what this queue pair sends.
void on_cnp(Engine& engine, QueuePair& qp, Instant now) noexcept;
// An RNR NAK for `psn` (already the oldest outstanding).
void on_rnr(Engine& engine, QueuePair& qp, uint8_t timer, Instant now) noexcept;
// A NAK sequence error, or a lost response, at una. Costs one retry per event.
void on_loss(Engine& engine, QueuePair& qp, Instant now,
             congestion::Loss::Reason reason = congestion::Loss::Reason::gap) noexcept;
// The time of an RNR timer code. //= roce:C-NAK-42
Duration rnr_delay(uint8_t code) noexcept;
// The retransmission time-out of a queue pair, 0 = never. //= roce:C-RETRY-46
Duration retry_delay(const QueuePair& qp) noexcept;
void restart_retry_timer(Engine& engine, QueuePair& qp, Instant now) noexcept;

// responder.cpp: a request packet.
void on_request(Engine& engine, QueuePair& qp, const wire::Packet& packet, const Frame& frame,
                Instant now) noexcept;

// The timer of `qp` fired: a packet that is still missing counts as lost.
void on_gap_timer(Engine& engine, QueuePair& qp, Instant now) noexcept;
// A frame came with telemetry, and perhaps with an ECN mark: what the next ACK or report will say.
void note_telemetry(QueuePair& qp, const wire::IntBlock& block, bool marked) noexcept;

// responder_resources.cpp: READs, atomics and effects (ATOMIC WRITE, FLUSH) at the responder.
// Executes a new request; returns the NAK syndrome, or 0.
uint8_t execute_read(Engine& engine, QueuePair& qp, const wire::Packet& packet) noexcept;
uint8_t execute_atomic(Engine& engine, QueuePair& qp, const wire::Packet& packet) noexcept;
uint8_t execute_effect(Engine& engine, QueuePair& qp, const wire::Packet& packet) noexcept;
// Answers a duplicate again, or drops it. //= roce:C-DUP-25 roce:C-DUP-26 roce:C-DUP-27
void replay(Engine& engine, QueuePair& qp, const wire::Packet& packet, Instant now) noexcept;

// responder_reply.cpp: sends queued responses, as the pacer lets them, then a NAK.
Served send_replies(Engine& engine, QueuePair& qp, FrameBuilder& out, uint32_t quantum,
                    Instant now) noexcept;
// Sends the waiting acknowledgement of `qp`, if nothing must go before it; true if it left.
bool send_ack(Engine& engine, QueuePair& qp, FrameBuilder& out) noexcept;
inline bool has_replies(const QueuePair& qp) noexcept {
  return qp.res.reply_head != qp.res.reply_tail || qp.res.nak_queued;
}
// The peer reports the READ responses that reached it (lib/wire/INT.md).
void on_report(Engine& engine, QueuePair& qp, const wire::Packet& packet, Instant now) noexcept;
// What reports the READ responses that reached us.
void emit_report(QueuePair& qp, FrameBuilder& out) noexcept;

}  // namespace weft::roce::rc
