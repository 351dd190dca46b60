// SPDX-License-Identifier: BSD-3-Clause
// Packets that the responder sends: READ and atomic responses in the order of their requests, then
// a NAK, then the acknowledgement of everything else. An ACK or NAK acknowledges all PSNs before
// it, so it never overtakes the responses of READs and atomics. //= roce:C-ACK-124
#include <algorithm>
#include <cstring>

#include "lib/roce/rc/rc.hpp"
#include "lib/wire/emit.hpp"

namespace weft::roce::rc {

namespace {

// The credit code for `free` posted receives, rounded down. //= roce:C-ACK-34
uint8_t credit_code(uint32_t free) noexcept {
  constexpr uint16_t kCredits[31] = {
      0,   1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,  192,
      256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768};
  const uint16_t* above =
      std::upper_bound(std::begin(kCredits), std::end(kCredits), std::min(free, 65535u));
  return static_cast<uint8_t>(above - std::begin(kCredits) - 1);
}

uint8_t ack_syndrome(EngineState& engine, QueuePair& qp) noexcept {
  //= roce:C-OPS-92 roce:C-ACK-130 which queue pair takes a shared receive is not known in advance
  if (!engine.config().credits || qp.shares()) return wire::kSyndromeAck | wire::kCreditUnlimited;
  // The receive of a SEND in progress counts as available, as its message is not in the MSN yet.
  qp.res.advertised = credit_code(qp.rq.size());
  return wire::kSyndromeAck | qp.res.advertised;
}

void emit_ack(QueuePair& qp, FrameBuilder& out, Psn psn, uint8_t syndrome) noexcept {
  const uint8_t opcode = wire::in_class(qp.service, wire::kRcAcknowledge);
  std::byte* at = out.start(qp.path, wire::opcode_info(opcode).header_length, 0);
  at = wire::emit_bth(at, {.opcode = opcode, .dest = qp.peer, .psn = psn}, qp.bth_constants);
  wire::emit_aeth(at, syndrome, qp.res.msn);
  if (qp.telemetry) out.put_telemetry(*qp.res.echo);
  out.finish();
}

void emit_atomic_result(EngineState& engine, QueuePair& qp, const Resource& r,
                        FrameBuilder& out) noexcept {
  const uint8_t opcode = wire::in_class(qp.service, wire::kRcAtomicAcknowledge);
  std::byte* at = out.start(qp.path, wire::opcode_info(opcode).header_length, 0);
  at =
      wire::emit_bth(at, {.opcode = opcode, .dest = qp.peer, .psn = r.reply_psn}, qp.bth_constants);
  at = wire::emit_aeth(at, ack_syndrome(engine, qp), qp.res.msn);
  wire::emit_atomic_ack_eth(at, r.original);
  out.finish();
}

wire::RcOpcode response_opcode(bool first, bool last) noexcept {
  if (first) return last ? wire::kRcReadResponseOnly : wire::kRcReadResponseFirst;
  return last ? wire::kRcReadResponseLast : wire::kRcReadResponseMiddle;
}

// Sends one READ response packet. False: the key or the memory is no longer valid.
bool emit_read_response(EngineState& engine, QueuePair& qp, Resource& r, FrameBuilder& out,
                        Instant now) noexcept {
  WEFT_DCHECK(r.kind != Resource::Kind::atomic && r.reply_sent <= r.reply_length);
  WEFT_DCHECK(r.kind == Resource::Kind::read || r.reply_length == 0);  // else of an effect
  const uint32_t length = std::min(r.reply_length - r.reply_sent, qp.mtu());
  const bool first = r.reply_sent == 0, last = r.reply_sent + length == r.reply_length;
  const uint8_t opcode = wire::in_class(qp.service, response_opcode(first, last));
  const wire::OpcodeInfo& info = wire::opcode_info(opcode);
  std::byte* where = nullptr;
  if (length != 0 &&
      engine.keys().check(r.rkey, {r.domain, qp.number.value}, r.reply_address + r.reply_sent,
                          length, Access::remote_read, &where) != memory::Verdict::ok)
    return false;
  std::byte* at = out.start(qp.path, info.header_length, length);
  at = wire::emit_bth(at,
                      {.opcode = opcode,
                       .pad = out.pad_for(length),
                       .dest = qp.peer,
                       .psn = r.reply_psn + (r.reply_sent >> qp.mtu_shift)},
                      qp.bth_constants);
  if (info.aeth) wire::emit_aeth(at, ack_syndrome(engine, qp), qp.res.msn);
  // By reference only without an ICRC, as the application may write to the memory at any time, and
  // not from a memory window, which a request may invalidate while responses are queued.
  const bool stable =
      engine.capabilities().integrity_bits == 0 && engine.keys().window(r.rkey) == nullptr;
  if (length != 0 && !out.add_payload(where, length, stable)) {
    out.cancel();
    return false;
  }
  out.finish();
  if (qp.req.pacer) {
    const Psn end = r.reply_psn + ((r.reply_sent >> qp.mtu_shift) + 1);
    count_departure_of(engine, qp.req.pacer->on_response_sent(now, end, length));
  }
  if (qp.req.paced) charge_limit(engine, qp, out, qp.path, {}, now);
  r.reply_sent += length;
  engine.count(Count::tx_read_responses);
  return true;
}

enum class Reply : uint8_t { done, no_room, held };

// Sends as much of a queued response as room, quantum and pacing permit.
Reply send_reply(EngineState& engine, QueuePair& qp, Resource& r, FrameBuilder& out,
                 uint32_t& quantum, Instant now) noexcept {
  if (r.kind == Resource::Kind::atomic) {
    emit_atomic_result(engine, qp, r, out);
    --quantum;
    return Reply::done;
  }
  do {
    if (quantum == 0 || !out.has_room()) return Reply::no_room;
    if (qp.req.paced && !may_leave(qp, now)) {
      wait_to_leave(engine, qp, now);
      return Reply::held;
    }
    if (!emit_read_response(engine, qp, r, out, now)) {
      // A duplicate of a READ whose key was revoked since: the first response arrived.
      if (r.replay) return engine.count(Count::rx_lost_resource), Reply::done;
      engine.count(
          Count::access_errors);  // the key was valid when the READ arrived: revoked on this side
      const Psn failed = r.reply_psn + (r.reply_sent >> qp.mtu_shift);
      enter_error(engine, qp);
      drop_replies(qp);
      qp.res.expected = failed;
      qp.res.nak_queued = true;
      qp.res.nak_syndrome = wire::kNakRemoteAccess;
      engine.raise(EventType::qp_access_error, qp.number);
      return Reply::done;
    }
    --quantum;
  } while (r.reply_sent < r.reply_length);
  return Reply::done;
}

}  // namespace

Served send_replies(EngineState& engine, QueuePair& qp, FrameBuilder& out, uint32_t quantum,
                    Instant now) noexcept {
  Responder& res = qp.res;
  const bool waiting = res.reply_head != res.reply_tail;
  if (waiting && qp.req.pacer) {
    qp.req.pacer->expire_responses(now, qp.mtu());
    qp.req.pacer->on_restart(now);
    apply_pacing(engine, qp);
  }
  while (res.reply_head != res.reply_tail) {
    if (!out.has_room() || quantum == 0) return Served::more;
    WEFT_DCHECK(res.reply_tail - res.reply_head <= res.resource_count);
    Resource& r = res.resources[res.reply_order[res.reply_head % res.resource_count]];
    WEFT_DCHECK(r.queued && r.kind != Resource::Kind::none);
    const Reply reply = send_reply(engine, qp, r, out, quantum, now);
    if (reply != Reply::done) return reply == Reply::held ? Served::idle : Served::more;
    if (res.reply_head == res.reply_tail) break;  // its key was revoked: all are dropped
    r.queued = false;
    ++res.reply_head;
  }
  if (waiting && res.ack_queued) engine.acks().resume(qp);  // no response precedes it any more
  if (!res.nak_queued) return Served::idle;
  if (!out.has_room()) return Served::more;
  res.nak_queued = false;
  const bool rnr = (res.nak_syndrome & wire::kSyndromeKindMask) == wire::kSyndromeRnr;
  engine.count(rnr ? Count::tx_rnr_naks : Count::tx_naks);
  emit_ack(qp, out, res.expected, res.nak_syndrome);
  return Served::idle;
}

void emit_report(QueuePair& qp, FrameBuilder& out) noexcept {
  WEFT_DCHECK(qp.telemetry && qp.res.echo != nullptr);
  const uint32_t length = wire::opcode_info(wire::kCnp).header_length;
  std::byte* const at = out.start(qp.path, length, 0);
  std::byte* const rest = wire::emit_bth(
      at, {.opcode = wire::kCnp, .dest = qp.peer, .psn = qp.res.report_psn, .mig_req = false});
  std::memset(rest, 0, length - wire::kBthLength);
  out.put_telemetry(*qp.res.echo);
  out.finish();
}

void on_report(EngineState& engine, QueuePair& qp, const wire::Packet& packet,
               Instant now) noexcept {
  engine.count(Count::rx_reports);
  if (!qp.req.pacer) return;
  qp.req.pacer->on_echo(*packet.telemetry);
  if (!qp.req.pacer->on_reported(now, packet.psn + 1, qp.mtu()))
    engine.count(Count::acks_without_telemetry);
  apply_pacing(engine, qp);
  if (has_replies(qp) || qp.req.next_index != qp.sq.tail()) engine.activate(qp);
}

bool send_ack(EngineState& engine, QueuePair& qp, FrameBuilder& out) noexcept {
  Responder& res = qp.res;
  if (!res.ack_queued) return true;
  if (res.reply_head != res.reply_tail || !out.has_room()) return false;
  WEFT_DCHECK(!res.nak_queued);
  res.ack_queued = res.duplicate_ack_owed = false;
  res.ack_delay.on_sent();
  engine.count(Count::tx_acks);
  const Psn last = res.ack_end + Psn::kMask;  // ack_end - 1
  const uint8_t syndrome = ack_syndrome(engine, qp);
  if (res.holes == nullptr)
    emit_ack(qp, out, last, syndrome);
  else
    emit_sack(engine, qp, out, last, syndrome);
  return true;
}

}  // namespace weft::roce::rc
