// SPDX-License-Identifier: BSD-3-Clause
// Sends requests packet by packet from the send cursor (`req.next`, in entry `next_index`), as far
// as the window, the RD-atomic limit, fences and the peer's credits permit. After a rewind the same
// code sends the same packets again (//= roce:C-RETRY-50).
#include <algorithm>
#include <cstring>

#include "lib/roce/message/local_work.hpp"
#include "lib/roce/message/send.hpp"
#include "lib/roce/rc/rc.hpp"
#include "lib/wire/emit.hpp"

namespace weft::roce::rc {

namespace {

// True if the entry at the cursor may start or continue now. If not, an event activates the queue
// pair later.
bool allowed(const QueuePair& qp, const SendEntry& entry) noexcept {
  const Requester& req = qp.req;
  const bool at_start = req.next == entry.first_psn;
  if (at_start && qp.state == QpState::sqd && req.next >= req.sent_end)
    return false;                                                          //= roce:C-STATE-64
  if (at_start && entry.fence && qp.reads_in_flight() != 0) return false;  //= roce:C-OPS-80
  if (entry.needs_response()) {                                            //= roce:C-OPS-74
    const uint32_t limit = *qp.attributes.max_rd_atomic;
    return qp.reads_in_flight() < limit;
  }
  //= roce:C-ACK-34
  if (!req.credits_unlimited && entry.consumes_receive() &&
      static_cast<int32_t>(entry.ssn - req.ssn_limit) > 0)
    return req.una == req.next;  // without credit: one packet at a time, which probes
  return true;
}

bool asks_for_ack(QueuePair& qp, const SendEntry& entry, uint64_t cost) noexcept {
  const bool last = qp.req.next + 1 == entry.end_psn();
  const bool wanted = last || qp.req.paced ||
                      qp.req.since_ack_request++ >= qp.req.ack_request_after ||
                      qp.destination->window.in_flight + 2 * cost >= qp.destination->window.size ||
                      (!qp.req.credits_unlimited && entry.consumes_receive());
  if (wanted) qp.req.since_ack_request = 0;  //= roce:C-ACK-30
  return wanted;
}

// Writes the headers that READs, atomics and effects have in common; `more`: bytes of payload that
// the caller writes as a header.
std::byte* start_request(QueuePair& qp, const SendEntry& entry, wire::RcOpcode rc, uint32_t more,
                         FrameBuilder& out) noexcept {
  const uint8_t opcode = wire::in_class(qp.service, rc);
  const wire::OpcodeInfo& info = wire::opcode_info(opcode);
  std::byte* const at =
      wire::emit_bth(out.start(qp.path, info.header_length + more, 0),
                     {.opcode = opcode,
                      .ack_request = true,
                      .dest = qp.peer,
                      .psn = Psn{static_cast<uint32_t>(qp.req.next) & Psn::kMask}},
                     qp.bth_constants);
  return info.xrceth ? wire::emit_xrceth(at, entry.srq) : at;
}

// Sends one READ request for the PSNs from the cursor to `end`. Long READs are split into chunks,
// so that fewer than 2^23 PSNs are outstanding and the window bounds the responses. //=
// roce:C-PSN-22
void send_read_request(QueuePair& qp, const SendEntry& entry, uint64_t end,
                       FrameBuilder& out) noexcept {
  Requester& req = qp.req;
  const uint64_t offset = (req.next - entry.first_psn) << qp.mtu_shift;
  const uint64_t until = std::min<uint64_t>((end - entry.first_psn) << qp.mtu_shift, entry.length);
  std::byte* const at = start_request(qp, entry, wire::kRcReadRequest, 0, out);
  //= roce:C-RETRY-51 after a rewind the address and length are those of the missing part
  wire::emit_reth(at, entry.remote_address + offset, RKey{entry.rkey},
                  static_cast<uint32_t>(until - offset));
  out.finish();
  req.next = end;
}

void send_atomic_request(QueuePair& qp, const SendEntry& entry, FrameBuilder& out) noexcept {
  const bool swap = entry.opcode == Opcode::compare_swap;
  const wire::RcOpcode opcode = swap ? wire::kRcCompareSwap : wire::kRcFetchAdd;
  std::byte* const at = start_request(qp, entry, opcode, 0, out);
  wire::emit_atomic_eth(at, entry.remote_address, RKey{entry.rkey},
                        swap ? entry.swap : entry.compare_add, swap ? entry.compare_add : 0);
  out.finish();
  qp.req.next += 1;
}

//= roce:C-OPS-74 they count as READs do
void send_effect_request(QueuePair& qp, const SendEntry& entry, FrameBuilder& out) noexcept {
  const bool flush = entry.opcode == Opcode::flush;
  const wire::RcOpcode opcode = flush ? wire::kRcFlush : wire::kRcAtomicWrite;
  std::byte* at = start_request(qp, entry, opcode, flush ? 0 : 8, out);
  const Flush& what = entry.flush;
  if (flush) {
    const uint32_t placement =
        (what.visible ? wire::kPlaceVisible : 0) | (what.persistent ? wire::kPlacePersistent : 0);
    at = wire::emit_feth(at, placement,
                         what.whole_region ? wire::kSelectRegion : wire::kSelectRange);
  }
  at = wire::emit_reth(at, entry.remote_address, RKey{entry.rkey}, flush ? what.length : 8);
  if (!flush) std::memcpy(at, &entry.swap, 8);
  out.finish();
  qp.req.next += 1;
}

// Sends the request of an entry that has a response, of a READ up to `end`, and moves the cursor
// behind it.
void send_answered(QueuePair& qp, const SendEntry& entry, uint64_t end,
                   FrameBuilder& out) noexcept {
  if (entry.opcode == Opcode::read)
    send_read_request(qp, entry, end, out);
  else if (entry.atomic())
    send_atomic_request(qp, entry, out);
  else
    send_effect_request(qp, entry, out);
}

// Bytes of payload of the message packet at `psn`.
uint32_t payload_at(const QueuePair& qp, const SendEntry& entry, uint64_t psn) noexcept {
  const uint64_t offset = (psn - entry.first_psn) << qp.mtu_shift;
  return static_cast<uint32_t>(std::min<uint64_t>(qp.mtu(), entry.length - offset));
}

// Sends the next packet (or READ request) of the entry at the cursor. False: a local error.
bool send_next(EngineState& engine, QueuePair& qp, const SendEntry& entry, FrameBuilder& out,
               Instant now) noexcept {
  Requester& req = qp.req;
  WEFT_DCHECK(entry.first_psn <= req.next && req.next < entry.end_psn());
  WEFT_DCHECK(qp.destination->window.open() && req.rnr_until.is_never());
  const uint64_t from = req.next;
  const uint64_t cost = cost_of(qp, entry);
  if (entry.message()) {
    const MessagePacket how{qp.service, asks_for_ack(qp, entry, cost), true};
    if (!send_message_packet(engine, qp, entry, how, out)) return false;
    if (req.pacer)
      count_departure_of(engine, req.pacer->on_sent(now, req.next, payload_at(qp, entry, from),
                                                    from < req.sent_end));
    if (req.paced) charge_limit(engine, qp, out, qp.path, {}, now);
  } else {
    send_answered(qp, entry, chunk_end(qp, entry, from), out);
    req.reads[req.reads_tail++ & req.reads_mask] = req.next;
  }
  WEFT_DCHECK(from < req.next && req.next <= entry.end_psn());
  WEFT_DCHECK(qp.reads_in_flight() <= req.reads_mask + 1);
  const uint64_t bytes = (req.next - from) * cost;
  req.in_flight += bytes;
  qp.destination->window.on_sent(bytes);
  if (from < req.sent_end) engine.count(Count::tx_retransmits);
  req.sent_end = std::max(req.sent_end, req.next);
  if (req.next == entry.end_psn()) ++req.next_index;
  return true;
}

// Handles a local error at the cursor. Requests before it may still succeed, so it completes when
// it is the oldest (//= roce:C-STATE-62); nothing behind it is sent.
void fail_at_cursor(EngineState& engine, QueuePair& qp) noexcept {
  complete_local(engine, qp);
  if (qp.state == QpState::err) return;  // its CQ overran
  SendEntry& entry = qp.sq[qp.req.next_index];
  entry.failed = true;
  if (qp.sq.head() == qp.req.next_index) fail_request(engine, qp, local_failure(entry), 0);
}

// The common case of small messages: one packet of inline data, the only request that is queued,
// and nothing that delays it. Each condition is one that send_any() checks, too.
bool is_lone_inline_message(const QueuePair& qp, const SendEntry& entry) noexcept {
  const Requester& req = qp.req;
  return entry.is_inline && entry.packets == 1 && entry.message() && !entry.fence &&
         !entry.failed && req.next_index + 1 == qp.sq.tail() && req.next == req.sent_end &&
         qp.state == QpState::rts && req.rnr_until.is_never() && !req.paced &&
         (req.credits_unlimited || static_cast<int32_t>(entry.ssn - req.ssn_limit) <= 0) &&
         req.scoreboard == nullptr && qp.destination->window.open();
}

// Sends such a request with the same effect on the state as send_next().
void send_lone_inline(EngineState& engine, QueuePair& qp, const SendEntry& entry, FrameBuilder& out,
                      Instant now) noexcept {
  Requester& req = qp.req;
  start_message_packet(qp, entry, {.length = entry.length}, {qp.service, true}, out);
  out.add_safe_payload(qp.sq.inline_data(req.next_index), entry.length);
  out.finish();
  WEFT_DCHECK(entry.first_psn == req.next && entry.packets == 1);
  const bool untimed = req.una == req.next || req.retry_at.is_never();
  const uint64_t bytes = cost_of(qp, entry);
  req.since_ack_request = 0;
  req.sent_end = ++req.next;
  ++req.next_index;
  req.in_flight += bytes;
  qp.destination->window.on_sent(bytes);
  if (untimed) restart_retry_timer(engine, qp, req.una + 1 == req.next, now);
}

// Sends any requests, as many as may be sent.
[[gnu::noinline]] Served send_any(EngineState& engine, QueuePair& qp, FrameBuilder& out,
                                  uint32_t quantum, Instant now) noexcept {
  Requester& req = qp.req;
  WEFT_DCHECK(req.next <= req.sent_end && req.sent_end <= req.post_end);
  if (!qp.can_request() || !req.rnr_until.is_never()) return Served::idle;
  const bool was_idle = req.una == req.next, first_time = req.next == req.sent_end;
  if (req.pacer) req.pacer->expire_responses(now, qp.mtu());
  if (req.pacer && was_idle && req.next != req.post_end) {
    req.pacer->on_restart(now);
    apply_pacing(engine, qp);
  }
  if (req.scoreboard != nullptr && send_missing(engine, qp, out, quantum, now) == Served::more)
    return Served::more;
  if (req.probing && out.has_room()) send_probe(engine, qp, out, now);
  uint32_t sent = 0;
  Served result = Served::idle;
  while (req.next_index != qp.sq.tail()) {
    const SendEntry& entry = qp.sq[req.next_index];
    if (entry.failed || !allowed(qp, entry)) {
      if (entry.failed) fail_at_cursor(engine, qp);
      break;
    }
    if (entry.local()) {
      if (execute_local(engine, qp)) continue;
      fail_at_cursor(engine, qp);
      break;
    }
    // The peer holds no more ahead of a gap.
    if (req.scoreboard != nullptr && req.next - req.una >= req.scoreboard->window()) break;
    if (!qp.destination->window.open()) {
      engine.wait_for_window(qp);
      break;
    }
    if (req.paced && !entry.needs_response() && !may_leave(qp, now)) {
      wait_to_leave(engine, qp, now);
      break;
    }
    if (!out.has_room() ||
        sent == quantum) {  // last: a queue pair that may not send is not served again
      result = Served::more;
      break;
    }
    if (!send_next(engine, qp, entry, out, now)) {
      fail_at_cursor(engine, qp);
      break;
    }
    ++sent;
  }
  complete_local(engine, qp);
  if (sent != 0 && (was_idle || req.retry_at.is_never()))
    restart_retry_timer(engine, qp, was_idle && first_time, now);
  return result;
}

}  // namespace

uint64_t send_again(EngineState& engine, QueuePair& qp, uint64_t psn, FrameBuilder& out,
                    Instant now) noexcept {
  Requester& req = qp.req;
  WEFT_DCHECK(req.una <= psn && psn < req.next);
  const uint64_t next = req.next;
  const uint32_t next_index = req.next_index;
  req.next = psn;
  req.next_index = entry_of(qp, psn);
  const SendEntry& entry = qp.sq[req.next_index];
  if (!entry.message()) {
    // One request for all that is missing of a chunk: the peer answers one at a time.
    uint64_t end = chunk_end(qp, entry, psn);
    const Scoreboard* const board = req.scoreboard;
    while (board != nullptr && end != psn + 1 && covers(qp, end - 1) && board->held(end - 1)) --end;
    if (board != nullptr && board->missing(psn))
      while (!board->missing(end - 1)) --end;
    send_answered(qp, entry, end, out);
  } else if (send_message_packet(engine, qp, entry, {qp.service, true, true}, out)) {
    if (req.pacer) req.pacer->on_sent_again(now, payload_at(qp, entry, psn));
    if (req.paced) charge_limit(engine, qp, out, qp.path, {}, now);
  }
  const uint64_t end = req.next;
  req.next = next;
  req.next_index = next_index;
  return end;
}

// It is the last packet, or of a READ what is missing of the last chunk: the answer shows what else
// was lost. But where the peer reported a hole, and each second time, it is the oldest one: a
// repetition was lost, or a NAK, of which a peer that goes back N sends no second.
void send_probe(EngineState& engine, QueuePair& qp, FrameBuilder& out, Instant now) noexcept {
  Requester& req = qp.req;
  if (!qp.limiter.open(now)) return wait_to_leave(engine, qp, now);
  req.probing = false;
  if (req.una == req.next) return;
  uint64_t psn = req.una;
  if (req.scoreboard == nullptr && req.probes % 2 != 0) {
    const SendEntry& last = qp.sq[entry_of(qp, req.next - 1)];
    const uint64_t begin = (req.next - 1 - last.first_psn) & ~uint64_t{req.read_chunk - 1};
    psn = last.opcode == Opcode::read ? std::max(psn, last.first_psn + begin) : req.next - 1;
  }
  if (send_again(engine, qp, psn, out, now) == psn) return;
  engine.count(Count::tail_probes);
  engine.count(Count::tx_retransmits);
}

Served send_requests(EngineState& engine, QueuePair& qp, FrameBuilder& out, uint32_t quantum,
                     Instant now) noexcept {
  const SendEntry& entry = qp.sq[qp.req.next_index];
  if (!is_lone_inline_message(qp, entry) || !out.has_room())
    return send_any(engine, qp, out, quantum, now);
  send_lone_inline(engine, qp, entry, out, now);
  return Served::idle;
}

}  // namespace weft::roce::rc
