// SPDX-License-Identifier: BSD-3-Clause
// Answers at the requester: ACKs, NAKs, READ and atomic responses. An answer is believed only for a
// PSN that is outstanding (//= threat:A07 roce:C-ACK-32); everything before it is acknowledged too,
// but never a READ or atomic whose response is missing (//= roce:C-ACK-31 roce:C-ACK-35).
#include <algorithm>
#include <cstring>

#include "lib/memory/guarded_copy.hpp"
#include "lib/roce/message/local_work.hpp"
#include "lib/roce/message/payload.hpp"
#include "lib/roce/rc/rc.hpp"

namespace weft::roce::rc {

namespace {

// IBTA table 46: credit code to number of receives.
constexpr uint16_t kCredits[31] = {
    0,   1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,  192,
    256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768};

// The wide PSN that a 24-bit PSN means, nearest to `near`: nothing else minds the wrap.
//= roce:C-PSN-18 roce:C-PSN-23
uint64_t widen(Psn psn, uint64_t near) noexcept {
  const int32_t distance = psn - Psn{static_cast<uint32_t>(near) & Psn::kMask};
  return near + static_cast<uint64_t>(static_cast<int64_t>(distance));
}

void note_credits(Engine& engine, QueuePair& qp, const wire::Aeth& aeth) noexcept {
  if ((aeth.syndrome & wire::kSyndromeKindMask) != wire::kSyndromeAck) return;
  const uint8_t code = aeth.syndrome & wire::kSyndromeValueMask;
  Requester& req = qp.req;
  req.credits_unlimited = code == wire::kCreditUnlimited;
  // MSN counts completed messages, SSN numbers them from 1; both modulo 2^24 on the wire.
  const int32_t ahead = Psn{aeth.msn} - Psn{req.ssn_limit & Psn::kMask};
  const uint32_t credits = req.credits_unlimited ? 0 : kCredits[code];
  const uint32_t limit = req.ssn_limit + static_cast<uint32_t>(ahead) + credits;
  if (static_cast<int32_t>(limit - req.ssn_limit) <= 0) return;  // an older word
  req.ssn_limit = limit;
  engine.activate(qp);
}

// Acknowledges PSNs up to `end` (exclusive). False: it met a READ or atomic without response.
bool acknowledge(Engine& engine, QueuePair& qp, uint64_t end, bool covers_responses,
                 Instant now) noexcept {
  Requester& req = qp.req;
  const uint64_t before = req.una;
  uint64_t freed = 0;
  bool complete = true;
  while (req.una < end) {
    const uint32_t head = qp.sq.head();
    const SendEntry& entry = qp.sq[head];
    if (entry.needs_response() && !covers_responses) {
      complete = false;
      break;
    }
    const uint64_t until = std::min(end, entry.end_psn());
    // After a rewind only PSNs before the cursor are charged to the window. What opens it is bytes
    // that are new, not the number of acknowledgements. //= threat:A09
    if (req.next > req.una) freed += (std::min(until, req.next) - req.una) * cost_of(qp, entry);
    req.una = until;
    if (req.una != entry.end_psn()) break;
    if (req.next_index == head) {  // a rewind was to send it again
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
  if (req.pacer) {
    if (!req.pacer->on_acknowledged(now, req.una, qp.mtu()))
      engine.count(Count::acks_without_telemetry);
    apply_pacing(engine, qp);
  }
  while (req.reads_head != req.reads_tail && req.reads[req.reads_head & req.reads_mask] <= req.una)
    ++req.reads_head;
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

// The response at una is missing: ask again, which costs a retry, but only once until something
// comes or the time is over: the answers in flight all say the same thing. //= roce:C-ACK-31
void on_gap(Engine& engine, QueuePair& qp, Instant now) noexcept {
  if (qp.req.response_gap) return;
  qp.req.response_gap = true;
  on_loss(engine, qp, now);
}

void on_acknowledge(Engine& engine, QueuePair& qp, const wire::Packet& packet, uint64_t psn,
                    Instant now) noexcept {
  if (packet.telemetry != nullptr && qp.req.pacer) qp.req.pacer->on_echo(*packet.telemetry);
  const uint8_t syndrome = packet.aeth().syndrome;
  const uint8_t kind = syndrome & wire::kSyndromeKindMask;
  if (kind == wire::kSyndromeAck) {
    engine.count(Count::rx_acks);
    if (!acknowledge(engine, qp, psn + 1, false, now)) on_gap(engine, qp, now);
    return;
  }
  //= roce:C-NAK-44
  if (!acknowledge(engine, qp, psn, false, now)) return on_gap(engine, qp, now);
  if (qp.state == QpState::err) return;
  if (kind == wire::kSyndromeRnr) {
    engine.count(Count::rx_rnr_naks);
    return on_rnr(engine, qp, syndrome & wire::kSyndromeValueMask, now);
  }
  engine.count(Count::rx_naks);
  if (syndrome == wire::kNakSequence) return on_loss(engine, qp, now);  //= roce:C-NAK-37
  if (kind != wire::kSyndromeNak) return engine.count(Count::rx_bad_response);
  // In the window a forger's is as good as the peer's: DEVIATIONS.md. //= threat:A08 roce:C-NAK-45
  fail_request(engine, qp, status_of(syndrome, is_xrc(qp.type)), syndrome);
}

// The payload of a response at offset `offset` of the READ at the head.
Status place_response(Engine& engine, QueuePair& qp, const wire::Packet& packet, const Frame& frame,
                      uint64_t offset) noexcept {
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

// Is this response packet what the READ at the head can get at `psn`? Its length must be that of
// its place, and its place that of the chunk. FIRST/MIDDLE and LAST/ONLY are not told apart: after
// a rewind a late packet of the first answer is as good. //= threat:A29
bool fits(const QueuePair& qp, const SendEntry& entry, const wire::Packet& packet,
          uint64_t psn) noexcept {
  const uint64_t index = psn - entry.first_psn;
  const bool entry_end = index + 1 == entry.packets;
  const bool chunk_end = entry_end || ((index + 1) & (qp.req.read_chunk - 1)) == 0;
  const uint64_t left = entry.length - (index << qp.mtu_shift);
  const uint64_t expected = entry_end ? left : qp.mtu();
  return packet.info->ends_message() == chunk_end && packet.payload_length == expected;
}

void on_read_response(Engine& engine, QueuePair& qp, const wire::Packet& packet, const Frame& frame,
                      uint64_t psn, Instant now) noexcept {
  const SendEntry& entry = qp.sq[qp.sq.head()];
  if (entry.opcode != Opcode::read || !fits(qp, entry, packet, psn)) {
    engine.count(Count::rx_bad_response);
    return fail_request(engine, qp, Status::bad_response, 0);
  }
  const uint64_t offset = (psn - entry.first_psn) << qp.mtu_shift;
  const Status status = place_response(engine, qp, packet, frame, offset);
  if (status == Status::retry_exceeded) return on_loss(engine, qp, now);  // the memory did not come
  if (status != Status::success) return fail_request(engine, qp, status, 0);
  acknowledge(engine, qp, psn + 1, true, now);
}

// What asked for an effect is told that it is there.
void on_effect_response(Engine& engine, QueuePair& qp, const wire::Packet& packet, uint64_t psn,
                        Instant now) noexcept {
  if (packet.info->place != wire::Place::only || packet.payload_length != 0) {
    engine.count(Count::rx_bad_response);
    return fail_request(engine, qp, Status::bad_response, 0);
  }
  acknowledge(engine, qp, psn + 1, true, now);
}

void on_atomic_response(Engine& engine, QueuePair& qp, const wire::Packet& packet, uint64_t psn,
                        Instant now) noexcept {
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

void on_response(Engine& engine, QueuePair& qp, const wire::Packet& packet, const Frame& frame,
                 Instant now) noexcept {
  Requester& req = qp.req;
  const uint64_t psn = widen(packet.psn, req.una);
  if (psn >= req.sent_end) return engine.count(Count::rx_ghost_ack);
  const bool plain = packet.info->operation == wire::Operation::acknowledge;
  if (!plain && psn + 1 < req.una) return engine.count(Count::rx_duplicate_acks);
  if (packet.info->operation == wire::Operation::read_response) engine.owe_report(qp, packet.psn);
  if (psn < req.una) {  //= roce:C-DUP-29 but it may bring credits
    if (plain) note_credits(engine, qp, packet.aeth());
    return engine.count(Count::rx_duplicate_acks);
  }
  if (packet.info->aeth) note_credits(engine, qp, packet.aeth());
  if (plain) return on_acknowledge(engine, qp, packet, psn, now);
  if (!acknowledge(engine, qp, psn, false, now)) {
    engine.count(Count::rx_out_of_sequence);
    return on_gap(engine, qp, now);
  }
  if (qp.state == QpState::err) return;
  // A response for what was rewound and not sent again yet is as good as one for the repeat.
  if (packet.info->operation == wire::Operation::atomic_acknowledge)
    return on_atomic_response(engine, qp, packet, psn, now);
  if (qp.sq[qp.sq.head()].effect()) return on_effect_response(engine, qp, packet, psn, now);
  on_read_response(engine, qp, packet, frame, psn, now);
}

}  // namespace weft::roce::rc
