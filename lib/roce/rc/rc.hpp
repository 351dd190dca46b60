// SPDX-License-Identifier: BSD-3-Clause
// The reliable-connection service: free functions over (EngineState, QueuePair, packet). Requests
// travel requester_send -> wire -> responder; responses travel responder_reply -> wire ->
// requester_ack. One step per file.
#pragma once

#include <algorithm>

#include "lib/roce/message/pacing.hpp"
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

// The wide PSN nearest to `near` that a 24-bit PSN means: the only place that handles the wrap.
//= roce:C-PSN-18 roce:C-PSN-23
inline uint64_t widen(Psn psn, uint64_t near) noexcept {
  const int32_t distance = psn - Psn{static_cast<uint32_t>(near) & Psn::kMask};
  return near + static_cast<uint64_t>(static_cast<int64_t>(distance));
}

// requester_send.cpp: sends requests of `qp` while room, window, credits and pacing permit.
Served send_requests(EngineState& engine, QueuePair& qp, FrameBuilder& out, uint32_t quantum,
                     Instant now) noexcept;

// The same for packets that were sent before: [psn, ...), of one entry. Returns the PSN behind what
// was sent; `psn`: a local error, nothing was sent.
uint64_t send_again(EngineState& engine, QueuePair& qp, uint64_t psn, FrameBuilder& out,
                    Instant now) noexcept;

// requester_ack.cpp: an ACK, NAK, READ response or atomic response.
void on_response(EngineState& engine, QueuePair& qp, const wire::Packet& packet, const Frame& frame,
                 Instant now) noexcept;

// selective.cpp: selective repeat (lib/wire/SACK.md).
// Sends again what is missing, as far as room and quantum permit.
Served send_missing(EngineState& engine, QueuePair& qp, FrameBuilder& out, uint32_t quantum,
                    Instant now) noexcept;
// A selective acknowledgement, whose PSN and AETH were processed.
void on_sack(EngineState& engine, QueuePair& qp, const wire::Packet& packet, const Frame& frame,
             Instant now) noexcept;
// Whether `psn`, which is outstanding, may have a mark.
inline bool covers(const QueuePair& qp, uint64_t psn) noexcept {
  return qp.selective != nullptr && psn - qp.req.una < qp.selective->scoreboard.window();
}
// The response at `psn` is here, but not the one at una. What is missing before it is requested
// again when no response to the same request can come any more: when the last one is here, or one
// to a later request.
void hold_response(EngineState& engine, QueuePair& qp, uint64_t psn, Instant now) noexcept;
// Responses before `end` that are not here are lost: something before `seen_end` that was sent
// later arrived.
void miss_responses(EngineState& engine, QueuePair& qp, uint64_t end, uint64_t seen_end,
                    Instant now) noexcept;
// The end of the chunk of a READ that holds `psn`; of any other entry, the end of `psn`.
inline uint64_t chunk_end(const QueuePair& qp, const SendEntry& entry, uint64_t psn) noexcept {
  const uint64_t index = psn - entry.first_psn;
  return entry.first_psn + std::min<uint64_t>((index | (qp.req.read_chunk - 1)) + 1, entry.packets);
}
// PSNs [from, end) are acknowledged, or will all be sent again. Returns how many of them are not
// charged to the window, because the peer held them.
inline uint64_t take_marks(Requester& req, uint64_t from, uint64_t end) noexcept {
  if (req.scoreboard == nullptr) return 0;
  const uint32_t held = req.scoreboard->take(from, end);
  if (req.scoreboard->empty()) req.scoreboard = nullptr;
  return held;
}
// Responder: a request [psn, end) arrived ahead of a gap.
void note_early(EngineState& engine, QueuePair& qp, Psn psn, Psn end, Instant now) noexcept;
// Requests were executed: there may be no holes any more.
void settle_holes(QueuePair& qp, Instant now) noexcept;
void on_holes_timer(EngineState& engine, QueuePair& qp, Instant now) noexcept;
// Sends a selective acknowledgement instead of an ACK: there are holes.
void emit_sack(EngineState& engine, QueuePair& qp, FrameBuilder& out, Psn psn,
               uint8_t syndrome) noexcept;

// requester_retry.cpp
// Index of the entry that holds `psn`; una <= psn <= post_end.
uint32_t entry_of(const QueuePair& qp, uint64_t psn) noexcept;
// Go-back-N: the next packet sent is `psn`; una <= psn <= next.
void rewind(EngineState& engine, QueuePair& qp, uint64_t psn) noexcept;
// The timer of `qp` fired: retransmission timeout, end of an RNR wait, pacing, or early.
void on_timer(EngineState& engine, QueuePair& qp, Instant now) noexcept;
void apply_pacing(EngineState& engine, QueuePair& qp) noexcept;
// A CNP: the network marked packets of this queue pair.
void on_cnp(EngineState& engine, QueuePair& qp, Instant now) noexcept;
// An RNR NAK for `psn` (already the oldest outstanding).
void on_rnr(EngineState& engine, QueuePair& qp, uint8_t timer, Instant now) noexcept;
// A NAK sequence error, or a lost response, at una. Costs one retry per event.
void on_loss(EngineState& engine, QueuePair& qp, Instant now,
             congestion::Loss::Reason reason = congestion::Loss::Reason::gap) noexcept;
// The time of an RNR timer code; `in_jiffies`: in whole ones. //= roce:C-NAK-42
Duration rnr_delay(uint8_t code, bool in_jiffies = false) noexcept;
// Restarts the retransmission timer: there was progress. `first`: not that, but the packet at una
// left just now.
void restart_retry_timer(EngineState& engine, QueuePair& qp, bool first, Instant now) noexcept;
// There was progress: the timeout is as long as before the time-outs.
void forget_time_outs(EngineState& engine, QueuePair& qp, Instant now) noexcept;
// The peer answered while the timer ran.
void end_silence(QueuePair& qp, Instant now) noexcept;
// Sends the end of what was sent again.
void send_probe(EngineState& engine, QueuePair& qp, FrameBuilder& out, Instant now) noexcept;

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
