// SPDX-License-Identifier: BSD-3-Clause
// The reliable-connection service: free functions over (EngineState, QueuePair, packet). Requests
// travel requester_send -> wire -> responder; responses travel responder_reply -> wire ->
// requester_ack. One step per file.
#pragma once

#include "lib/roce/message/receive.hpp"
#include "lib/roce/message/send.hpp"
#include "lib/roce/state/engine_state.hpp"
#include "lib/roce/state/queue_pair.hpp"
#include "lib/roce/state/transport_names.hpp"
#include "lib/transport/frame_builder.hpp"
#include "lib/wire/parse.hpp"

namespace weft::roce::rc {

// Bytes of the window that one packet of `entry` takes: payload and the receiver's overhead.
inline uint64_t cost_of(const QueuePair& qp, const SendEntry& entry) noexcept {
  return (entry.packets == 1 ? entry.length : qp.mtu()) + qp.destination->packet_overhead;
}

// requester_send.cpp: sends requests of `qp` while room, window, credits and pacing permit.
Served send_requests(EngineState& engine, QueuePair& qp, FrameBuilder& out, uint32_t quantum,
                     Instant now) noexcept;

// requester_ack.cpp: an ACK, NAK, READ response or atomic response.
void on_response(EngineState& engine, QueuePair& qp, const wire::Packet& packet, const Frame& frame,
                 Instant now) noexcept;

// requester_retry.cpp
// Go-back-N: the next packet sent is `psn`; una <= psn <= next.
void rewind(EngineState& engine, QueuePair& qp, uint64_t psn) noexcept;
// The timer of `qp` fired: retransmission timeout, end of an RNR wait, pacing, or early.
void on_timer(EngineState& engine, QueuePair& qp, Instant now) noexcept;
void apply_pacing(EngineState& engine, QueuePair& qp) noexcept;
// Counts a paced packet that left `late` after its time; negative: it did not wait.
void count_departure_of(EngineState& engine, Duration late) noexcept;
// The pacer delays the next packet: arms the timer that activates the queue pair again.
void wait_for_pacer(EngineState& engine, QueuePair& qp, Instant now) noexcept;
// A CNP: the network marked packets of this queue pair.
void on_cnp(EngineState& engine, QueuePair& qp, Instant now) noexcept;
// An RNR NAK for `psn` (already the oldest outstanding).
void on_rnr(EngineState& engine, QueuePair& qp, uint8_t timer, Instant now) noexcept;
// A NAK sequence error, or a lost response, at una. Costs one retry per event.
void on_loss(EngineState& engine, QueuePair& qp, Instant now,
             congestion::Loss::Reason reason = congestion::Loss::Reason::gap) noexcept;
// The time of an RNR timer code. //= roce:C-NAK-42
Duration rnr_delay(uint8_t code) noexcept;
void restart_retry_timer(EngineState& engine, QueuePair& qp, Instant now) noexcept;

// responder.cpp: a request packet.
void on_request(EngineState& engine, QueuePair& qp, const wire::Packet& packet, const Frame& frame,
                Instant now) noexcept;

// The timer of `qp` fired: a packet that is still missing after nak_delay, or behind which
// `expected` stands still, counts as lost; duplicates get the ACK that they requested.
void on_responder_timer(EngineState& engine, QueuePair& qp, Instant now) noexcept;
// Stores the telemetry of a frame, and its ECN mark, for the next ACK or report.
void note_telemetry(QueuePair& qp, const wire::IntBlock& block, bool marked) noexcept;

// responder_resources.cpp: READs, atomics and effects (ATOMIC WRITE, FLUSH) at the responder.
// Executes a new request; returns the NAK syndrome, or 0.
uint8_t execute_read(EngineState& engine, QueuePair& qp, const wire::Packet& packet) noexcept;
uint8_t execute_atomic(EngineState& engine, QueuePair& qp, const wire::Packet& packet) noexcept;
uint8_t execute_effect(EngineState& engine, QueuePair& qp, const wire::Packet& packet) noexcept;
// Queues the response of a duplicate request again, or drops the duplicate. //= roce:C-DUP-25
// roce:C-DUP-26 roce:C-DUP-27
void replay(EngineState& engine, QueuePair& qp, const wire::Packet& packet, Instant now) noexcept;

// responder_reply.cpp: sends queued responses as pacing permits, then a queued NAK.
Served send_replies(EngineState& engine, QueuePair& qp, FrameBuilder& out, uint32_t quantum,
                    Instant now) noexcept;
// Sends the delayed acknowledgement of `qp`, unless responses must precede it; true if none is
// left.
bool send_ack(EngineState& engine, QueuePair& qp, FrameBuilder& out) noexcept;
inline bool has_replies(const QueuePair& qp) noexcept {
  return qp.res.reply_head != qp.res.reply_tail || qp.res.nak_queued;
}
// The peer reports the READ responses that reached it (lib/wire/INT.md).
void on_report(EngineState& engine, QueuePair& qp, const wire::Packet& packet,
               Instant now) noexcept;
// Sends the report of the READ responses that arrived.
void emit_report(QueuePair& qp, FrameBuilder& out) noexcept;

}  // namespace weft::roce::rc
