// SPDX-License-Identifier: BSD-3-Clause
// Responses at the requester: ACKs, NAKs, READ and atomic responses. One is accepted only for a PSN
// that is outstanding (//= threat:A07 roce:C-ACK-32); everything before it is acknowledged too, but
// never a READ or atomic whose response is missing (//= roce:C-ACK-31 roce:C-ACK-35).
#include <algorithm>
#include <cstring>

#include "lib/memory/guarded_copy.hpp"
#include "lib/roce/message/local_work.hpp"
#include "lib/roce/rc/rc.hpp"

namespace weft::roce::rc {

namespace {

// IBTA table 46: credit code to number of receives.
constexpr uint16_t kCredits[31] = {
    0,   1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,  192,
    256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768};

void note_credits(EngineState& engine, QueuePair& qp, const wire::Aeth& aeth) noexcept {
  if ((aeth.syndrome & wire::kSyndromeKindMask) != wire::kSyndromeAck) return;
  const uint8_t code = aeth.syndrome & wire::kSyndromeValueMask;
  Requester& req = qp.req;
  req.credits_unlimited = code == wire::kCreditUnlimited;
  // MSN counts completed messages, SSN numbers them from 1; both modulo 2^24 on the wire.
  const int32_t ahead = Psn{aeth.msn} - Psn{req.ssn_limit & Psn::kMask};
  const uint32_t credits = req.credits_unlimited ? 0 : kCredits[code];
  const uint32_t limit = req.ssn_limit + static_cast<uint32_t>(ahead) + credits;
  if (static_cast<int32_t>(limit - req.ssn_limit) <= 0) return;  // older than the last
  req.ssn_limit = limit;
  engine.activate(qp);
}

// Acknowledges PSNs up to `end` (exclusive). False: stopped at a READ or atomic without response.
bool acknowledge(EngineState& engine, QueuePair& qp, uint64_t end, bool covers_responses,
                 Instant now) noexcept {
  Requester& req = qp.req;
  WEFT_DCHECK(req.una <= req.next && req.next <= req.sent_end && end <= req.sent_end);
  const uint64_t before = req.una;
  uint64_t freed = 0;
  bool complete = true;
  while (req.una < end) {
    WEFT_DCHECK(!qp.sq.empty());
    const uint32_t head = qp.sq.head();
    const SendEntry& entry = qp.sq[head];
    WEFT_DCHECK(entry.first_psn <= req.una && (entry.local() || req.una < entry.end_psn()));
    if (entry.needs_response() && !covers_responses) {
      complete = false;
      break;
    }
    const uint64_t until = std::min(end, entry.end_psn());
    // After a rewind only PSNs before the cursor are charged to the window. It opens by bytes newly
    // acknowledged, not by the number of acknowledgements. //= threat:A09
    const uint64_t held = take_marks(req, req.una, until);
    if (req.next > req.una)
      freed += (std::min(until, req.next) - req.una - held) * cost_of(qp, entry);
    req.una = until;
    if (req.una != entry.end_psn()) break;
    if (req.next_index == head) {  // acknowledged before its retransmission
      req.next = req.una;
      req.next_index = head + 1;
    }
    qp.sq.pop();  // first: if its CQ overruns, the rest is flushed in there
    complete_request(engine, qp, entry, Status::success, 0);
    if (qp.state == QpState::err) return true;  // its CQ overran
  }
  complete_local(engine, qp);
  if (qp.state == QpState::err || req.una == before) return complete;
  if (req.next < req.una) req.next = req.una;
  WEFT_DCHECK(req.una <= req.next && req.next <= req.sent_end);
  if (req.pacer) {
    if (!req.pacer->on_acknowledged(now, req.una, qp.mtu()))
      engine.count(Count::acks_without_telemetry);
    apply_pacing(engine, qp);
  }
  while (req.reads_head != req.reads_tail && req.reads[req.reads_head & req.reads_mask] <= req.una)
    ++req.reads_head;
  WEFT_DCHECK(freed <= req.in_flight && req.in_flight <= qp.destination->window.in_flight);
  req.in_flight -= freed;
  qp.destination->window.on_acknowledged(freed);
  engine.wake_waiting(*qp.destination);
  req.retries_left = *qp.attributes.retry_count;  //= roce:C-RETRY-49
  req.rnr_left = *qp.attributes.rnr_retry;        //= roce:C-RETRY-48
  req.response_gap = false;
  if (qp.expired != 0) forget_time_outs(engine, qp, now);
  restart_retry_timer(engine, qp, false, now);
  // Paced READ responses wait for the same window.
  if (req.next_index != qp.sq.tail() || (req.pacer && has_replies(qp))) engine.activate(qp);
  if (req.drain_event && qp.drained()) {
    req.drain_event = false;
    engine.raise(EventType::sq_drained, qp.number);
  }
  return complete;
}

Status status_of(uint8_t syndrome, bool xrc) noexcept {  //= roce:C-NAK-43
  switch (syndrome) {
    case wire::kNakInvalidRequest:
      return Status::remote_invalid_request;
    case wire::kNakRemoteAccess:
      return Status::remote_access_error;
    case wire::kNakRemoteOperation:
      return Status::remote_operation_error;
    case wire::kNakInvalidRd:
      return xrc ? Status::remote_invalid_request : Status::bad_response;
    default:
      return Status::bad_response;  //= roce:C-NAK-41
  }
}

// The response at una is missing: go back to it, which costs a retry, but only once until the next
// acknowledgement or timeout: all responses in flight show the same gap. //= roce:C-ACK-31
void go_back_to_gap(EngineState& engine, QueuePair& qp, Instant now) noexcept {
  if (qp.req.response_gap) return;
  qp.req.response_gap = true;
  on_loss(engine, qp, now);
}

// The same, as an ACK of `psn` or a response shows. With selective repeat only what is missing is
// requested again.
void on_gap(EngineState& engine, QueuePair& qp, uint64_t psn, Instant now) noexcept {
  if (qp.selective == nullptr || qp.req.una == qp.req.next) return go_back_to_gap(engine, qp, now);
  miss_responses(engine, qp, psn, psn + 1, now);
}

void on_acknowledge(EngineState& engine, QueuePair& qp, const wire::Packet& packet, uint64_t psn,
                    Instant now) noexcept {
  if (packet.telemetry != nullptr && qp.req.pacer) qp.req.pacer->on_echo(*packet.telemetry);
  const uint8_t syndrome = packet.aeth().syndrome;
  const uint8_t kind = syndrome & wire::kSyndromeKindMask;
  if (kind == wire::kSyndromeAck) {
    engine.count(Count::rx_acks);
    if (!acknowledge(engine, qp, psn + 1, false, now)) on_gap(engine, qp, psn, now);
    return;
  }
  //= roce:C-NAK-44 roce:C-NAK-129
  if (!acknowledge(engine, qp, psn, false, now)) return go_back_to_gap(engine, qp, now);
  if (qp.state == QpState::err) return;
  if (kind == wire::kSyndromeRnr) {
    engine.count(Count::rx_rnr_naks);
    return on_rnr(engine, qp, syndrome & wire::kSyndromeValueMask, now);
  }
  engine.count(Count::rx_naks);
  if (syndrome == wire::kNakSequence) return on_loss(engine, qp, now);          //= roce:C-NAK-37
  if (kind != wire::kSyndromeNak) return engine.count(Count::rx_bad_response);  //= roce:C-ACK-127
  // Inside the window a forged NAK cannot be told from the peer's: DEVIATIONS.md. //= threat:A08
  // roce:C-NAK-45
  fail_request(engine, qp, status_of(syndrome, is_xrc(qp.type)), syndrome);
}

// True if this response packet is valid for the READ `entry` at `psn`: its length must match its
// place, and its place the chunk. FIRST/MIDDLE and LAST/ONLY are not distinguished: after a rewind
// a late packet of the first response is valid, too. Selective repeat requests parts of a chunk,
// whose responses end earlier. //= threat:A29
bool fits(const QueuePair& qp, const SendEntry& entry, const wire::Packet& packet,
          uint64_t psn) noexcept {
  WEFT_DCHECK(psn >= entry.first_psn && psn < entry.end_psn());
  const uint64_t index = psn - entry.first_psn;
  const bool entry_end = index + 1 == entry.packets;
  const bool ends = packet.info->ends_message();
  const bool may_end = psn + 1 == chunk_end(qp, entry, psn);
  const uint64_t left = entry.length - (index << qp.mtu_shift);
  const uint64_t expected = entry_end ? left : qp.mtu();
  return (ends == may_end || (ends && qp.selective != nullptr)) &&
         packet.payload_length == expected;
}

Status status_of(Placed placed) noexcept {
  if (placed == Placed::ok) return Status::success;
  return placed == Placed::not_pulled ? Status::retry_exceeded : Status::local_protection_error;
}

Status place_original(EngineState& engine, QueuePair& qp, uint32_t index,
                      const wire::Packet& packet) noexcept {
  const uint64_t original = packet.atomic_ack_eth().original;
  std::byte bytes[8];
  std::memcpy(bytes, &original, 8);
  const auto copy = [&bytes](std::byte* where, uint32_t done, uint32_t piece) {
    return memory::copy_in(where, bytes + done, piece) ? Placed::ok : Placed::local_error;
  };
  return status_of(scatter(engine, qp.domain, qp.sq.sges(index), 0, 8, copy));
}

// Places the response at `psn` to the request `index`, which holds that PSN.
Status place_response(EngineState& engine, QueuePair& qp, uint32_t index,
                      const wire::Packet& packet, const Frame& frame, uint64_t psn) noexcept {
  const SendEntry& entry = qp.sq[index];
  //= roce:C-ACK-139
  const bool refuses =
      packet.info->aeth && (packet.aeth().syndrome & wire::kSyndromeKindMask) != wire::kSyndromeAck;
  if (refuses) return Status::bad_response;
  if (packet.info->operation == wire::Operation::atomic_acknowledge)
    return entry.atomic() ? place_original(engine, qp, index, packet) : Status::bad_response;
  if (entry.effect())
    return packet.info->place == wire::Place::only && packet.payload_length == 0
               ? Status::success
               : Status::bad_response;
  //= roce:C-ACK-136
  if (entry.opcode != Opcode::read || !fits(qp, entry, packet, psn)) return Status::bad_response;
  const uint64_t offset = (psn - entry.first_psn) << qp.mtu_shift;
  return status_of(scatter_payload(engine, qp.domain, qp.sq.sges(index), offset, packet, frame));
}

// Completes responses that were placed before the one that was missing.
void complete_held(EngineState& engine, QueuePair& qp, Instant now) noexcept {
  const Requester& req = qp.req;
  while (req.scoreboard != nullptr && req.scoreboard->held(req.una) &&
         qp.sq[qp.sq.head()].needs_response())
    acknowledge(engine, qp, req.una + 1, true, now);
}

// The response at una is missing, but not this one. With selective repeat it is placed now.
void on_early_response(EngineState& engine, QueuePair& qp, const wire::Packet& packet,
                       const Frame& frame, uint64_t psn, Instant now) noexcept {
  engine.count(Count::rx_out_of_sequence);
  if (qp.selective == nullptr || psn >= qp.req.next) return on_gap(engine, qp, psn, now);
  const uint32_t index = entry_of(qp, psn);
  if (!qp.sq[index].needs_response() || !covers(qp, psn)) return;
  if (place_response(engine, qp, index, packet, frame, psn) != Status::success)
    return;  // it is placed again, or fails, when it is the oldest
  hold_response(engine, qp, psn, now);
}

}  // namespace

void on_response(EngineState& engine, QueuePair& qp, const wire::Packet& packet, const Frame& frame,
                 Instant now) noexcept {
  Requester& req = qp.req;
  WEFT_DCHECK(qp.reliable() && qp.can_request());
  const uint64_t psn = widen(packet.psn, req.una);
  if (psn >= req.sent_end) return engine.count(Count::rx_ghost_ack);
  const bool is_ack = packet.info->operation == wire::Operation::acknowledge;
  if (packet.info->sack) {
    if (qp.selective == nullptr) return engine.count(Count::rx_bad_opcode);  //= roce:C-HDR-122
    if (packet.payload_length > qp.mtu() || frame.remote_length != 0)
      return engine.count(Count::rx_bad_payload);
  }
  if (!is_ack && psn + 1 < req.una) return engine.count(Count::rx_duplicate_acks);
  if (packet.info->operation == wire::Operation::read_response)
    engine.notices().queue_report(qp, packet.psn);
  if (psn < req.una) {  //= roce:C-DUP-29 but it may carry credits
    if (is_ack) note_credits(engine, qp, packet.aeth());
    if (packet.info->sack) return on_sack(engine, qp, packet, frame, now);
    return engine.count(Count::rx_duplicate_acks);
  }
  if (packet.info->aeth) note_credits(engine, qp, packet.aeth());
  if (is_ack) {
    on_acknowledge(engine, qp, packet, psn, now);
    if (packet.info->sack && qp.state != QpState::err) on_sack(engine, qp, packet, frame, now);
    return;
  }
  if (!acknowledge(engine, qp, psn, false, now))
    return on_early_response(engine, qp, packet, frame, psn, now);
  if (qp.state == QpState::err) return;
  // A response to a request that was rewound and not yet sent again is valid.
  WEFT_DCHECK(!qp.sq.empty() && psn == req.una);
  const Status status = place_response(engine, qp, qp.sq.head(), packet, frame, psn);
  if (status == Status::retry_exceeded)
    return on_loss(engine, qp, now);  // the payload could not be pulled
  if (status == Status::bad_response) engine.count(Count::rx_bad_response);
  if (status != Status::success) return fail_request(engine, qp, status, 0);
  acknowledge(engine, qp, psn + 1, true, now);
  complete_held(engine, qp, now);
}

}  // namespace weft::roce::rc
