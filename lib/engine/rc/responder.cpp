// SPDX-License-Identifier: BSD-3-Clause
// Requests at the responder, one packet at a time: sequence, then legality, then resources, then
// execution (IBTA 9.7.4). Each check names what is wrong as a Verdict; one switch at the end acts.
#include <algorithm>

#include "lib/engine/rc/rc.hpp"

namespace weft::engine::rc {

namespace {

using Message = Responder::Message;

struct Verdict {
  enum class Kind : uint8_t { accept, nak, rnr, drop } kind = Kind::accept;
  uint8_t syndrome = 0;
  Status receive_status = Status::success;  // nak: the receive in use ends with this
  static Verdict nak(uint8_t syndrome, Status status = Status::success) {
    return {Kind::nak, syndrome, status};
  }
};

// FIRST/MIDDLE/LAST/ONLY must follow each other, within one operation. //= roce:C-OPS-69
bool in_order(const QueuePair& qp, const wire::Packet& packet) noexcept {
  const wire::OpcodeInfo& info = *packet.info;
  if (info.starts_message()) return qp.res.message == Message::none;
  return qp.res.message ==
         (info.operation == wire::Operation::send ? Message::send : Message::write);
}

// FIRST and MIDDLE carry the path MTU, LAST 1..MTU, ONLY 0..MTU. //= roce:C-OPS-70 roce:C-OPS-71
bool length_fits(const Engine& engine, const QueuePair& qp, const wire::Packet& packet) noexcept {
  if (!packet.info->ends_message()) return packet.payload_length == qp.mtu() && packet.pad == 0;
  if (packet.payload_length > qp.mtu()) return false;
  if (packet.info->place == wire::Place::last && packet.payload_length == 0) return false;
  //= roce:C-HDR-3 frames without an ICRC have no pad either
  return !packet.info->payload || !engine.checks_icrc() ||
         ((packet.payload_length + packet.pad) & 3) == 0;
}

Verdict execute_send(Engine& engine, QueuePair& qp, const wire::Packet& packet,
                     const Frame& frame) noexcept {
  Responder& res = qp.res;
  const bool invalidates = packet.info->ieth;
  if (packet.info->starts_message()) {
    if (qp.rq.empty()) return {Verdict::Kind::rnr};
    res.received = 0;
  }
  switch (place_send(engine, qp, packet, frame)) {
    case Placed::ok:
      break;
    case Placed::too_long:  //= roce:C-OPS-82
      return Verdict::nak(wire::kNakInvalidRequest, Status::local_length_error);
    case Placed::not_pulled:
      return {Verdict::Kind::drop};
    default:  //= roce:C-NAK-40
      return Verdict::nak(wire::kNakRemoteOperation, Status::local_protection_error);
  }
  res.received += packet.payload_length;
  res.message = packet.info->ends_message() ? Message::none : Message::send;
  if (!packet.info->ends_message()) return {};
  //= roce:C-OPS-73 the key is dead before the completion can be seen
  if (invalidates && !engine.invalidate(qp, packet.imm_or_key()))
    return Verdict::nak(wire::kNakRemoteAccess, Status::local_access_error);
  complete_receive(engine, qp, Status::success, static_cast<uint32_t>(res.received), &packet);
  return {};
}

Verdict begin_write(Engine& engine, QueuePair& qp, const wire::Packet& packet) noexcept {
  Responder& res = qp.res;
  const wire::Reth& reth = packet.reth();
  res.write_key = reth.rkey;
  res.write_address = reth.address;
  res.write_length = reth.length;
  res.received = 0;
  if (res.write_length > engine.config().limits.max_message)
    return Verdict::nak(wire::kNakInvalidRequest);
  if (res.write_length == 0) return {};  //= roce:C-OPS-78
  std::byte* where;
  if (!has(qp.access, Access::remote_write) ||  //= roce:C-NAK-39
      engine.keys().check(res.write_key, qp.domain, res.write_address, res.write_length,
                          Access::remote_write, &where) != memory::Verdict::ok)
    return Verdict::nak(wire::kNakRemoteAccess);
  return {};
}

Verdict execute_write(Engine& engine, QueuePair& qp, const wire::Packet& packet,
                      const Frame& frame) noexcept {
  Responder& res = qp.res;
  const bool last = packet.info->ends_message();
  //= roce:C-OPS-72
  if (last && packet.info->imm && qp.rq.empty()) return {Verdict::Kind::rnr};
  if (packet.info->starts_message()) {
    const Verdict begun = begin_write(engine, qp, packet);
    if (begun.kind != Verdict::Kind::accept) return begun;
  }
  const uint64_t after = res.received + packet.payload_length;
  if (last ? after != res.write_length : after >= res.write_length)
    return Verdict::nak(wire::kNakInvalidRequest);
  switch (place_write(engine, qp, packet, frame)) {
    case Placed::ok:
      break;
    case Placed::not_pulled:
      return {Verdict::Kind::drop};
    default:
      return Verdict::nak(wire::kNakRemoteAccess);
  }
  res.received = after;
  res.message = last ? Message::none : Message::write;
  if (last && packet.info->imm)
    complete_receive(engine, qp, Status::success, res.write_length, &packet);
  return {};
}

Verdict execute(Engine& engine, QueuePair& qp, const wire::Packet& packet,
                const Frame& frame) noexcept {
  if (!in_order(qp, packet) || !length_fits(engine, qp, packet))
    return Verdict::nak(wire::kNakInvalidRequest);  //= roce:C-NAK-38
  uint8_t syndrome = 0;
  switch (packet.info->operation) {
    case wire::Operation::send:
      return execute_send(engine, qp, packet, frame);
    case wire::Operation::write:
      return execute_write(engine, qp, packet, frame);
    case wire::Operation::read_request:
      syndrome = execute_read(engine, qp, packet);
      break;
    default:
      syndrome = execute_atomic(engine, qp, packet);
      break;
  }
  return syndrome == 0 ? Verdict{} : Verdict::nak(syndrome);
}

void queue_nak(Engine& engine, QueuePair& qp, uint8_t syndrome) noexcept {
  qp.res.nak_sent = true;
  qp.res.nak_queued = true;
  qp.res.nak_syndrome = syndrome;
  qp.res.ack_queued = false;  // the NAK acknowledges what came before it
  engine.activate(qp);
}

// A fatal NAK: the receive in use fails with its own status, the rest is flushed, the queue pair's
// owner is told (//= roce:C-NAK-43).
void refuse(Engine& engine, QueuePair& qp, const Verdict& verdict) noexcept {
  const bool access = verdict.syndrome == wire::kNakRemoteAccess;
  engine.count(access ? Count::access_errors : Count::request_errors);
  if (verdict.receive_status != Status::success && !qp.rq.empty())
    complete_receive(engine, qp, verdict.receive_status, 0, nullptr);
  enter_error(engine, qp, Replies::send);  // what came before the bad request still succeeds
  queue_nak(engine, qp, verdict.syndrome);
  engine.raise(access ? EventType::qp_access_error : EventType::qp_request_error, qp.number);
}

// Each answer tells all there is to know, so a flood of duplicates (or of spoofed packets that look
// like some) gets few of them. //= threat:A02
constexpr Duration kDuplicateAnswers = Duration::from_us(4);

// The first packet behind a gap is a little ahead and is answered at once. One far ahead is the
// successor of a lost READ of many PSNs or, more likely, spoofed: a NAK would make the true peer go
// back for nothing, so it must find the sequence at the same place as another did long before.
// //= threat:A02
constexpr int32_t kFar = 4096;
constexpr Duration kStandsStill = Duration::from_us(1000);

bool calls_for_nak(Responder& res, int32_t ahead, Instant now) noexcept {
  if (res.nak_sent) return false;
  if (ahead < kFar) return true;
  if (res.far_expected == res.expected) return now - res.far_since >= kStandsStill;
  res.far_expected = res.expected;
  res.far_since = now;
  return false;
}

void on_duplicate(Engine& engine, QueuePair& qp, const wire::Packet& packet, Instant now) noexcept {
  engine.count(Count::rx_duplicates);
  const wire::Operation operation = packet.info->operation;
  if (operation == wire::Operation::send || operation == wire::Operation::write) {
    if (now < qp.res.duplicates_quiet_until) return;
    qp.res.duplicates_quiet_until = now + kDuplicateAnswers;
    return engine.queue_ack(qp);  //= roce:C-DUP-24
  }
  replay(engine, qp, packet);
}

}  // namespace

void on_request(Engine& engine, QueuePair& qp, const wire::Packet& packet, const Frame& frame,
                Instant now) noexcept {
  Responder& res = qp.res;
  const int32_t ahead = packet.psn - res.expected;
  if (ahead < 0) return on_duplicate(engine, qp, packet, now);
  if (ahead > 0) {  //= roce:C-PSN-19
    engine.count(Count::rx_out_of_sequence);
    if (calls_for_nak(res, ahead, now)) queue_nak(engine, qp, wire::kNakSequence);
    return;
  }
  const uint32_t packets =
      packet.info->operation == wire::Operation::read_request
          ? std::max<uint32_t>(
                1, (uint32_t{packet.reth().length} + uint64_t{qp.mtu()} - 1) >> qp.mtu_shift)
          : 1;
  if (res.nak_queued) engine.queue_ack(qp);  // the NAK that did not leave stood for an ACK too
  res.nak_sent = res.nak_queued = false;
  const Verdict verdict = execute(engine, qp, packet, frame);
  if (qp.state == QpState::err) return;  // its CQ overran
  switch (verdict.kind) {
    case Verdict::Kind::accept:
      break;
    case Verdict::Kind::drop:
      return engine.count(Count::rx_pull_failed);
    case Verdict::Kind::rnr:
      return queue_nak(engine, qp, wire::kSyndromeRnr | *qp.attributes.min_rnr_timer);
    case Verdict::Kind::nak:
      return refuse(engine, qp, verdict);
  }
  res.expected = res.expected + packets;
  const bool answered = packet.info->operation != wire::Operation::send &&
                        packet.info->operation != wire::Operation::write;
  if (packet.info->ends_message() && !answered) res.msn = (res.msn + 1) & Psn::kMask;
  if (packet.ack_request && !answered) engine.queue_ack(qp);  //= roce:C-ACK-30
}

}  // namespace weft::engine::rc
