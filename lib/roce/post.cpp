// SPDX-License-Identifier: BSD-3-Clause
// Posting work: requests are validated, copied into the queue pair's rings and assigned PSNs; the
// next transmit() sends them.
#include <algorithm>

#include "lib/base/copy_short.hpp"
#include "lib/memory/guarded_copy.hpp"
#include "lib/roce/check_send.hpp"
#include "lib/roce/engine.hpp"
#include "lib/roce/message/local_work.hpp"
#include "lib/roce/message/outcome.hpp"
#include "lib/roce/unreliable/unreliable.hpp"

namespace weft::roce {

namespace {

constexpr Opcode kInvalidates = Opcode::send_with_invalidate;

// Why a request is invalid, or nullptr. `length` gets the sum of its entries.
const char* invalid_reason(const memory::KeyTable& keys, const QueuePair& qp, const SendRequest& r,
                           uint64_t max_message, uint32_t& length) noexcept {
  if (r.opcode > Opcode::local_invalidate || r.opcode == Opcode::write_add)
    return "this provider has no such opcode";
  if (r.imm_high != 0)
    return "immediate data has 32 bits here: set imm_high to 0, or use provider srd";
  if (const char* const reason =
          transport::invalid_reason(r, {qp.sq.max_sge(), qp.max_inline, max_message}, length))
    return reason;
  if (qp.type == QpType::ud) return ud::invalid_reason(qp, r, length);
  if (qp.type == QpType::xrc_initiator && r.remote_srq > 0xFFFFFF)
    return "SendRequest::remote_srq has more than 24 bits";
  if (is_local(r.opcode)) return invalid_local_reason(keys, r);
  if (qp.type == QpType::uc && (!is_message(r.opcode) || r.opcode == kInvalidates))
    return "UC queue pairs only SEND and WRITE, with or without immediate data";
  if (!is_message(r.opcode) && qp.attributes.max_rd_atomic.value_or(1) == 0)
    return "READ, atomics and FLUSH need max_rd_atomic > 0";
  return nullptr;
}

// Copies inline data at post, so that the buffer is free at return. //= roce:C-OPS-76
void copy_inline(QueuePair& qp, const SendRequest& r) noexcept {
  std::byte* to = qp.sq.inline_data(qp.sq.tail());
  for (const Sge& sge : r.sges) {
    if (sge.length == 0) continue;  // an address of an empty entry may be invalid
    base::copy_mostly_short(to, static_cast<const std::byte*>(sge.address), sge.length);
    to += sge.length;
  }
}

void append(QueuePair& qp, const SendRequest& r, uint32_t length) noexcept {
  Requester& req = qp.req;
  WEFT_DCHECK(!qp.sq.full() && qp.mtu() != 0);
  SendEntry& entry = qp.sq.tail_entry();
  entry.id = r.id;
  entry.first_psn = req.post_end;
  entry.length = length;
  entry.packets = length <= qp.mtu()
                      ? 1
                      : static_cast<uint32_t>((uint64_t{length} + qp.mtu() - 1) >> qp.mtu_shift);
  if (!is_message(r.opcode)) {
    entry.compare_add = r.compare_add;
    entry.swap = r.swap;
    entry.flush = r.flush;
    if (r.opcode != Opcode::read) entry.packets = is_local(r.opcode) ? 0 : 1;
  }
  // Not next to `id`: gcc would load both into one register and stall on the stores of the caller.
  entry.remote_address = r.remote_address;
  entry.rkey = r.rkey.value;
  const bool revokes = r.opcode == kInvalidates || r.opcode == Opcode::local_invalidate;
  entry.imm_or_key = revokes ? r.invalidate.value : r.imm;
  entry.opcode = r.opcode;
  entry.signaled = qp.signal_all || has(r.flags, SendFlags::signaled);
  entry.fence = has(r.flags, SendFlags::fence);
  //= roce:C-OPS-90 a WRITE without immediate has no completion that it could solicit
  entry.solicited = has(r.flags, SendFlags::solicited) && r.opcode != Opcode::write;
  entry.is_inline = has(r.flags, SendFlags::inline_data);
  entry.failed = entry.done = false;
  entry.srq = r.remote_srq;
  entry.ssn = req.post_ssn;
  // A READ is as many messages as it has chunks (requester_send.cpp splits it).
  req.post_ssn += r.opcode == Opcode::read ? (entry.packets + req.read_chunk - 1) / req.read_chunk
                                           : std::min(entry.packets, 1u);
  req.post_end += entry.packets;
  if (entry.is_inline) {
    copy_inline(qp, r);
  } else {
    WEFT_DCHECK(r.sges.size() <= qp.sq.max_sge());
    entry.sge_count = static_cast<uint8_t>(r.sges.size());
    std::copy(r.sges.begin(), r.sges.end(), qp.sq.sges(qp.sq.tail()));
  }
  WEFT_DCHECK(entry.end_psn() == req.post_end);
  qp.sq.push();
}

constexpr const char* kSendQueueFull =
    "the send queue is full: poll completions, or raise max_send_wr";

bool flushes_sends(const QueuePair& qp) noexcept {  //= roce:C-STATE-61
  return qp.state == QpState::err || qp.state == QpState::sqe;
}

// Whether the queue pair takes requests at all.
PostStatus check_sender(const QueuePair& qp) noexcept {
  if (qp.type == QpType::xrc_target)
    return {Code::invalid_argument, 0, "an XRC target has no send queue: an XRC initiator sends"};
  if (!qp.can_request() && !flushes_sends(qp))  //= roce:C-STATE-59
    return {Code::bad_state, 0, "sends can be posted in RTS, SQD, SQE and ERR only"};
  return {};
}

}  // namespace

PostStatus check_send(EngineState& engine, const QueuePair& qp,
                      std::span<const SendRequest> requests) noexcept {
  PostStatus status = check_sender(qp);
  if (!status) return status;
  const uint64_t most = engine.config().limits.max_message;
  const uint32_t room = flushes_sends(qp) ? UINT32_MAX : qp.sq.capacity() - qp.sq.size();
  for (const SendRequest& r : requests) {
    uint32_t length = 0;
    if (const char* reason = invalid_reason(engine.keys(), qp, r, most, length))
      return {Code::invalid_argument, status.accepted, reason};
    if (status.accepted == room) return {Code::queue_full, status.accepted, kSendQueueFull};
    ++status.accepted;
  }
  return status;
}

PostStatus Engine::post_send(QueuePair& qp, std::span<const SendRequest> requests,
                             Instant now) noexcept {
  (void)now;
  PostStatus status = check_sender(qp);
  if (!status) return status;
  const bool flushes = flushes_sends(qp);
  for (const SendRequest& r : requests) {
    uint32_t length = 0;
    if (const char* reason = invalid_reason(keys_, qp, r, config_.limits.max_message, length)) {
      status.code = Code::invalid_argument;
      status.reason = reason;
      break;
    }
    if (flushes) {
      SendEntry flushed;
      flushed.id = r.id;
      flushed.opcode = r.opcode;
      complete_request(*this, qp, flushed, Status::flushed, 0);
      ++status.accepted;
      continue;
    }
    if (qp.sq.full()) {
      status.code = Code::queue_full;
      status.reason = kSendQueueFull;
      break;
    }
    if (qp.type == QpType::ud) qp.datagrams[qp.sq.slot(qp.sq.tail())] = ud::datagram(qp, r, port_);
    append(qp, r, length);
    if (r.opcode == Opcode::bind_window) store_binding(keys_, r, qp.sq[qp.sq.tail() - 1]);
    if (length > kBulk) bulk_posted_ = true;
    ++status.accepted;
  }
  if (status.accepted != 0 && !flushes) activate(qp);
  return status;
}

PostStatus Engine::post_recv(QueuePair& qp, std::span<const RecvRequest> requests) noexcept {
  if (is_xrc(qp.type))
    return {Code::invalid_argument, 0,
            "XRC queue pairs have no receive queue: post to a shared receive queue of the domain"};
  if (qp.state == QpState::reset)
    return {Code::bad_state, 0, "receives can be posted from INIT on"};
  if (qp.shared != nullptr)
    return {Code::invalid_argument, 0,
            "this queue pair takes its receives from a shared receive queue: post there"};
  PostStatus status;
  if (qp.state == QpState::err) {  // each is flushed at once
    for (const RecvRequest& r : requests) {
      const PostStatus one = append_receives(qp.rq, {&r, 1}, config_.limits.max_message);
      if (!one) return {one.code, status.accepted, one.reason};
      complete_receive(*this, qp, Status::flushed, 0, nullptr);
      ++status.accepted;
    }
    return status;
  }
  status = append_receives(qp.rq, requests, config_.limits.max_message);
  // The last acknowledgement carried 0 credits: advertise the new ones (//= roce:C-ACK-34).
  if (status.accepted != 0 && qp.can_respond() && qp.res.advertised == 0) acks_.queue(qp);
  return status;
}

PostStatus Engine::post_recv(SharedReceives& srq, std::span<const RecvRequest> requests) noexcept {
  return append_receives(srq.ring, requests, config_.limits.max_message);
}

}  // namespace weft::roce
