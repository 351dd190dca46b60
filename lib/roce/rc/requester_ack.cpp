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

// The wide PSN nearest to `near` that a 24-bit PSN means: the only place that handles the wrap.
//= roce:C-PSN-18 roce:C-PSN-23
uint64_t widen(Psn psn, uint64_t near) noexcept {
  const int32_t distance = psn - Psn{static_cast<uint32_t>(near) & Psn::kMask};
  return near + static_cast<uint64_t>(static_cast<int64_t>(distance));
}

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
    if (req.next > req.una) freed += (std::min(until, req.next) - req.una) * cost_of(qp, entry);
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
  restart_retry_timer(engine, qp, now);
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

// The response at una is missing: request it again, which costs a retry, but only once until the
// next acknowledgement or timeout: all responses in flight show the same gap. //= roce:C-ACK-31
void on_gap(EngineState& engine, QueuePair& qp, Instant now) noexcept {
  if (qp.req.response_gap) return;
  qp.req.response_gap = true;
  on_loss(engine, qp, now);
}

void on_acknowledge(EngineState& engine, QueuePair& qp, const wire::Packet& packet, uint64_t psn,
                    Instant now) noexcept {
  if (packet.telemetry != nullptr && qp.req.pacer) qp.req.pacer->on_echo(*packet.telemetry);
  const uint8_t syndrome = packet.aeth().syndrome;
  const uint8_t kind = syndrome & wire::kSyndromeKindMask;
  if (kind == wire::kSyndromeAck) {
    engine.count(Count::rx_acks);
    if (!acknowledge(engine, qp, psn + 1, false, now)) on_gap(engine, qp, now);
    return;
  }
  //= roce:C-NAK-44 roce:C-NAK-129
  if (!acknowledge(engine, qp, psn, false, now)) return on_gap(engine, qp, now);
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

// Places the payload of a response at offset `offset` of the READ at the head.
Status place_response(EngineState& engine, QueuePair& qp, const wire::Packet& packet,
                      const Frame& frame, uint64_t offset) noexcept {
  const Sge* const sges = qp.sq.sges(qp.sq.head());
  switch (scatter_payload(engine, qp.domain, sges, offset, packet, frame)) {
    case Placed::ok:
      return Status::success;
    case Placed::not_pulled:
      return Status::retry_exceeded;
    default:
      return Status::local_protection_error;
  }
}

// True if this response packet is valid for the READ at the head at `psn`: its length must match
// its place, and its place the chunk. FIRST/MIDDLE and LAST/ONLY are not distinguished: after a
// rewind a late packet of the first response is valid, too. //= threat:A29
bool fits(const QueuePair& qp, const SendEntry& entry, const wire::Packet& packet,
          uint64_t psn) noexcept {
  WEFT_DCHECK(psn >= entry.first_psn && psn < entry.end_psn());
  const uint64_t index = psn - entry.first_psn;
  const bool entry_end = index + 1 == entry.packets;
  const bool chunk_end = entry_end || ((index + 1) & (qp.req.read_chunk - 1)) == 0;
  const uint64_t left = entry.length - (index << qp.mtu_shift);
  const uint64_t expected = entry_end ? left : qp.mtu();
  return packet.info->ends_message() == chunk_end && packet.payload_length == expected;
}

void on_read_response(EngineState& engine, QueuePair& qp, const wire::Packet& packet,
                      const Frame& frame, uint64_t psn, Instant now) noexcept {
  WEFT_DCHECK(!qp.sq.empty() && psn == qp.req.una);
  const SendEntry& entry = qp.sq[qp.sq.head()];
  if (entry.opcode != Opcode::read || !fits(qp, entry, packet, psn)) {
    engine.count(Count::rx_bad_response);
    return fail_request(engine, qp, Status::bad_response, 0);
  }
  const uint64_t offset = (psn - entry.first_psn) << qp.mtu_shift;
  const Status status = place_response(engine, qp, packet, frame, offset);
  if (status == Status::retry_exceeded)
    return on_loss(engine, qp, now);  // the payload could not be pulled
  if (status != Status::success) return fail_request(engine, qp, status, 0);
  acknowledge(engine, qp, psn + 1, true, now);
}

// The response to an ATOMIC WRITE or FLUSH.
void on_effect_response(EngineState& engine, QueuePair& qp, const wire::Packet& packet,
                        uint64_t psn, Instant now) noexcept {
  if (packet.info->place != wire::Place::only || packet.payload_length != 0) {
    engine.count(Count::rx_bad_response);
    return fail_request(engine, qp, Status::bad_response, 0);
  }
  acknowledge(engine, qp, psn + 1, true, now);
}

void on_atomic_response(EngineState& engine, QueuePair& qp, const wire::Packet& packet,
                        uint64_t psn, Instant now) noexcept {
  const uint32_t head = qp.sq.head();
  const SendEntry& entry = qp.sq[head];
  if (!entry.atomic()) {
    engine.count(Count::rx_bad_response);
    return fail_request(engine, qp, Status::bad_response, 0);
  }
  const uint64_t original = packet.atomic_ack_eth().original;
  std::byte bytes[8];
  std::memcpy(bytes, &original, 8);
  const auto copy = [&bytes](std::byte* where, uint32_t done, uint32_t piece) {
    return memory::copy_in(where, bytes + done, piece) ? Placed::ok : Placed::local_error;
  };
  if (scatter(engine, qp.domain, qp.sq.sges(head), 0, 8, copy) != Placed::ok)
    return fail_request(engine, qp, Status::local_protection_error, 0);
  acknowledge(engine, qp, psn + 1, true, now);
}

}  // namespace

void on_response(EngineState& engine, QueuePair& qp, const wire::Packet& packet, const Frame& frame,
                 Instant now) noexcept {
  Requester& req = qp.req;
  WEFT_DCHECK(qp.reliable() && qp.can_request());
  const uint64_t psn = widen(packet.psn, req.una);
  if (psn >= req.sent_end) return engine.count(Count::rx_ghost_ack);
  const bool is_ack = packet.info->operation == wire::Operation::acknowledge;
  if (!is_ack && psn + 1 < req.una) return engine.count(Count::rx_duplicate_acks);
  if (packet.info->operation == wire::Operation::read_response)
    engine.notices().queue_report(qp, packet.psn);
  if (psn < req.una) {  //= roce:C-DUP-29 but it may carry credits
    if (is_ack) note_credits(engine, qp, packet.aeth());
    return engine.count(Count::rx_duplicate_acks);
  }
  if (packet.info->aeth) note_credits(engine, qp, packet.aeth());
  if (is_ack) return on_acknowledge(engine, qp, packet, psn, now);
  if (!acknowledge(engine, qp, psn, false, now)) {
    engine.count(Count::rx_out_of_sequence);
    return on_gap(engine, qp, now);
  }
  if (qp.state == QpState::err) return;
  // A response to a request that was rewound and not yet sent again is valid.
  if (packet.info->operation == wire::Operation::atomic_acknowledge)
    return on_atomic_response(engine, qp, packet, psn, now);
  if (qp.sq[qp.sq.head()].effect()) return on_effect_response(engine, qp, packet, psn, now);
  on_read_response(engine, qp, packet, frame, psn, now);
}

}  // namespace weft::roce::rc
