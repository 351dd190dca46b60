// SPDX-License-Identifier: BSD-3-Clause
// Sending requests: one packet after the other from the cursor (`req.next`, in entry `next_index`),
// as far as the window, the RD-atomic limit, the fence and the peer's credits allow. After a rewind
// the same code sends the same packets again (//= roce:C-RETRY-50).
#include <algorithm>

#include "lib/engine/rc/rc.hpp"
#include "lib/wire/emit.hpp"

namespace weft::engine::rc {

namespace {

constexpr uint32_t kAckRequestEvery = 16;  // packets without an ACK request, at most

// What a packet of `entry` costs of the window: its bytes and the receiver's overhead for it.
uint64_t packet_cost(const QueuePair& qp, const SendEntry& entry) noexcept {
  return (entry.packets == 1 ? entry.length : qp.mtu()) + qp.destination->packet_overhead;
}

// May the entry at the cursor start or go on now? If not, an event will activate the queue pair.
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
  if (entry.consumes_receive() && !req.credits_unlimited &&
      static_cast<int32_t>(entry.ssn - req.ssn_limit) > 0)
    return req.una == req.next;  // without credit: one packet at a time, as a probe
  return true;
}

struct Shape {
  uint8_t opcode;
  uint32_t header_length;
};

// The opcode of packet `index` of a SEND or WRITE (IBTA table 38).
Shape shape(const SendEntry& entry, uint32_t index) noexcept {
  const bool first = index == 0, last = index + 1 == entry.packets;
  const bool is_write = entry.opcode == Opcode::write || entry.opcode == Opcode::write_with_imm;
  const bool imm = entry.opcode == Opcode::send_with_imm || entry.opcode == Opcode::write_with_imm;
  uint8_t opcode = is_write ? wire::kRcWriteFirst : wire::kRcSendFirst;
  if (first && last) {
    opcode += imm ? 5 : 4;
  } else if (last) {
    opcode += imm ? 3 : 2;
  } else if (!first) {
    opcode += 1;
  }
  if (entry.opcode == Opcode::send_with_invalidate && last)
    opcode = first ? wire::kRcSendOnlyInv : wire::kRcSendLastInv;
  return {opcode, wire::opcode_info(opcode).header_length};
}

// Adds `length` payload bytes of `entry` from `offset` on. False: a key, a bound or a page is
// wrong.
bool add_payload(Engine& engine, QueuePair& qp, const SendEntry& entry, uint64_t offset,
                 uint32_t length, FrameBuilder& out) noexcept {
  if (entry.is_inline) {
    out.add_safe_payload(qp.sq.inline_data(qp.req.next_index) + offset, length);
    return true;
  }
  const Sge* sges = qp.sq.sges(qp.req.next_index);
  for (uint32_t i = 0; length != 0; ++i) {
    if (offset >= sges[i].length) {
      offset -= sges[i].length;
      continue;
    }
    const uint32_t piece =
        static_cast<uint32_t>(std::min<uint64_t>(length, sges[i].length - offset));
    const uint64_t address = reinterpret_cast<uint64_t>(sges[i].address) + offset;
    std::byte* where;
    if (engine.keys().check(sges[i].lkey.value, qp.domain, address, piece, Access::none, &where) !=
        memory::Verdict::ok)
      return false;
    if (!out.add_payload(where, piece, true)) return false;
    length -= piece;
    offset = 0;
  }
  return true;
}

bool asks_for_ack(QueuePair& qp, const SendEntry& entry, bool last, uint64_t cost) noexcept {
  const bool wanted = last || ++qp.req.since_ack_request >= kAckRequestEvery ||
                      qp.destination->window.in_flight + 2 * cost >= qp.destination->window.size ||
                      (entry.consumes_receive() && !qp.req.credits_unlimited);
  if (wanted) qp.req.since_ack_request = 0;  //= roce:C-ACK-30
  return wanted;
}

// One SEND or WRITE packet. False: local error.
bool send_message_packet(Engine& engine, QueuePair& qp, const SendEntry& entry,
                         FrameBuilder& out) noexcept {
  const uint32_t index = static_cast<uint32_t>(qp.req.next - entry.first_psn);
  const bool last = index + 1 == entry.packets;
  const uint64_t offset = uint64_t{index} << qp.mtu_shift;
  const uint32_t length = last ? static_cast<uint32_t>(entry.length - offset) : qp.mtu();
  const Shape s = shape(entry, index);
  const wire::OpcodeInfo& info = wire::opcode_info(s.opcode);
  std::byte* at = out.start(qp.path, s.header_length, length);
  at = wire::emit_bth(at, {.opcode = s.opcode,
                           .solicited = entry.solicited && last,
                           .ack_request = asks_for_ack(qp, entry, last, packet_cost(qp, entry)),
                           .pad = out.pad_for(length),
                           .dest = qp.peer,
                           .psn = Psn{static_cast<uint32_t>(qp.req.next) & Psn::kMask}});
  if (info.reth) at = wire::emit_reth(at, entry.remote_address, RKey{entry.rkey}, entry.length);
  if (info.imm || info.ieth) wire::emit_imm(at, entry.imm_or_key);
  if (length != 0 && !add_payload(engine, qp, entry, offset, length, out)) {
    out.cancel();
    return false;
  }
  out.finish();
  qp.req.next += 1;
  return true;
}

// One READ request for the rest of the chunk at the cursor. Long READs are split into chunks, so
// that fewer than 2^23 PSNs are outstanding and the window bounds the responses. //= roce:C-PSN-22
void send_read_request(QueuePair& qp, const SendEntry& entry, FrameBuilder& out) noexcept {
  Requester& req = qp.req;
  const uint64_t index = req.next - entry.first_psn;
  const uint64_t end = std::min<uint64_t>((index | (req.read_chunk - 1)) + 1, entry.packets);
  const uint64_t offset = index << qp.mtu_shift;
  const uint64_t until = std::min<uint64_t>(end << qp.mtu_shift, entry.length);
  std::byte* at = out.start(qp.path, wire::opcode_info(wire::kRcReadRequest).header_length, 0);
  at = wire::emit_bth(at, {.opcode = wire::kRcReadRequest,
                           .ack_request = true,
                           .dest = qp.peer,
                           .psn = Psn{static_cast<uint32_t>(req.next) & Psn::kMask}});
  //= roce:C-RETRY-51 after a rewind the address and length are those of the missing part
  wire::emit_reth(at, entry.remote_address + offset, RKey{entry.rkey},
                  static_cast<uint32_t>(until - offset));
  out.finish();
  req.next = entry.first_psn + end;
  req.reads[req.reads_tail++ & req.reads_mask] = req.next;
}

void send_atomic_request(QueuePair& qp, const SendEntry& entry, FrameBuilder& out) noexcept {
  Requester& req = qp.req;
  const bool swap = entry.opcode == Opcode::compare_swap;
  const uint8_t opcode = swap ? wire::kRcCompareSwap : wire::kRcFetchAdd;
  std::byte* at = out.start(qp.path, wire::opcode_info(opcode).header_length, 0);
  at = wire::emit_bth(at, {.opcode = opcode,
                           .ack_request = true,
                           .dest = qp.peer,
                           .psn = Psn{static_cast<uint32_t>(req.next) & Psn::kMask}});
  wire::emit_atomic_eth(at, entry.remote_address, RKey{entry.rkey},
                        swap ? entry.swap : entry.compare_add, swap ? entry.compare_add : 0);
  out.finish();
  req.next += 1;
  req.reads[req.reads_tail++ & req.reads_mask] = req.next;
}

// The next packet (or READ request) of the entry at the cursor. False: local error.
bool send_next(Engine& engine, QueuePair& qp, const SendEntry& entry, FrameBuilder& out) noexcept {
  Requester& req = qp.req;
  const uint64_t from = req.next;
  if (entry.opcode == Opcode::read) {
    send_read_request(qp, entry, out);
  } else if (entry.atomic()) {
    send_atomic_request(qp, entry, out);
  } else if (!send_message_packet(engine, qp, entry, out)) {
    return false;
  }
  const uint64_t bytes = (req.next - from) * packet_cost(qp, entry);
  req.in_flight += bytes;
  qp.destination->window.on_sent(bytes);
  if (from < req.sent_end) engine.count(Count::tx_retransmits);
  req.sent_end = std::max(req.sent_end, req.next);
  if (req.next == entry.end_psn()) ++req.next_index;
  return true;
}

// A local error at the cursor. Requests before it may still succeed, so it waits until it is the
// oldest (//= roce:C-STATE-62); nothing behind it is sent.
void fail_at_cursor(Engine& engine, QueuePair& qp) noexcept {
  qp.sq[qp.req.next_index].failed = true;
  if (qp.sq.head() == qp.req.next_index)
    fail_request(engine, qp, Status::local_protection_error, 0);
}

}  // namespace

uint64_t cost_of(const QueuePair& qp, const SendEntry& entry) noexcept {
  return packet_cost(qp, entry);
}

Served send_requests(Engine& engine, QueuePair& qp, FrameBuilder& out, uint32_t quantum,
                     Instant now) noexcept {
  Requester& req = qp.req;
  if (!qp.can_request() || !req.rnr_until.is_never()) return Served::idle;
  const bool was_idle = req.una == req.next;
  uint32_t sent = 0;
  Served result = Served::idle;
  while (req.next_index != qp.sq.tail()) {
    if (!out.has_room() || sent == quantum) {
      result = Served::more;
      break;
    }
    const SendEntry& entry = qp.sq[req.next_index];
    if (entry.failed || !allowed(qp, entry)) {
      if (entry.failed) fail_at_cursor(engine, qp);
      break;
    }
    if (!qp.destination->window.open()) {
      engine.wait_for_window(qp);
      break;
    }
    if (!send_next(engine, qp, entry, out)) {
      fail_at_cursor(engine, qp);
      break;
    }
    ++sent;
  }
  if (sent != 0 && (was_idle || req.retry_at.is_never())) restart_retry_timer(engine, qp, now);
  return result;
}

}  // namespace weft::engine::rc
