// SPDX-License-Identifier: BSD-3-Clause
// Posting work: requests are validated and become queued messages of their peer; the next
// transmit() sends them.
#include <algorithm>
#include <cstring>

#include "lib/base/check.hpp"
#include "lib/srd/engine.hpp"

namespace weft::srd {

namespace {

constexpr uint32_t kOwnKey = 0x80000000;  // a Q_Key with this bit: that of the sender's queue pair

bool has_immediate(Opcode opcode) {
  return opcode == Opcode::send_with_imm || opcode == Opcode::write_with_imm;
}

wire::SrdOpcode kind_of(Opcode opcode) {
  switch (opcode) {
    case Opcode::write:
    case Opcode::write_with_imm:
      return wire::SrdOpcode::write;
    case Opcode::read:
      return wire::SrdOpcode::read_request;
    case Opcode::compare_swap:
      return wire::SrdOpcode::compare_swap;
    case Opcode::fetch_add:
      return wire::SrdOpcode::fetch_add;
    case Opcode::write_add:
      return wire::SrdOpcode::write_add;
    default:
      return wire::SrdOpcode::send;
  }
}

// Why a request cannot be posted, or nullptr. `length` gets the sum of its entries.
const char* invalid_reason(const QueuePair& qp, const SendRequest& r, uint64_t max_message,
                           uint32_t& length) noexcept {
  if (r.opcode > Opcode::local_invalidate) return "this provider has no such opcode";
  if (is_local(r.opcode)) return "SRD has no memory windows";
  if (is_effect(r.opcode)) return "SRD has no ATOMIC WRITE and no FLUSH";
  if (r.opcode == Opcode::send_with_invalidate) return "SRD has no SEND with invalidate";
  if (const char* const reason =
          transport::invalid_reason(r, {qp.sends.max_sge(), qp.max_inline, max_message}, length))
    return reason;
  if (has(r.flags, SendFlags::fence)) return "SRD has no fence: wait for completions";
  if (has(r.flags, SendFlags::ordered) && kind_of(r.opcode) != wire::SrdOpcode::send &&
      r.opcode != Opcode::write_add)
    return "only SENDs and WRITE_ADDs can be ordered";
  if (r.opcode == Opcode::write_add && length % (r.element == Element::int64 ? 8 : 4) != 0)
    return "WRITE_ADD needs whole elements";
  if (r.to == nullptr && !(qp.attributes.path && qp.attributes.dest_qpn))
    return "no destination: set SendRequest::to and remote_qpn";
  return nullptr;
}

// Without ECN; not the DSCP by which switches mark trimmed packets.
uint8_t class_of(const AddressVector& path) {
  return wire::is_trimmed(path.traffic_class) ? 0 : path.traffic_class & 0xFC;
}

// Queues the request as a message of `peer`. False: there is no memory.
bool post_message(SendContext& ctx, QueuePair& qp, Peer& peer, const SendRequest& r,
                  uint32_t length) noexcept {
  WEFT_DCHECK(!qp.sends.full());
  Message* const message = ctx.messages.take_reserved();
  if (message == nullptr) return false;
  Message& m = *message;
  m.kind = kind_of(r.opcode);
  m.request.opcode = r.opcode;
  m.request.signaled = qp.signal_all || has(r.flags, SendFlags::signaled);
  m.solicited = has(r.flags, SendFlags::solicited);
  m.local.is_inline = has(r.flags, SendFlags::inline_data);
  m.has_immediate = has_immediate(r.opcode);
  m.ordered_add = has(r.flags, SendFlags::ordered) && r.opcode == Opcode::write_add;
  m.ordered = has(r.flags, SendFlags::ordered) && !m.ordered_add;
  m.detail = static_cast<uint8_t>(r.element);
  m.traffic_class = class_of(r.to != nullptr ? r.to->path() : *qp.attributes.path);
  m.length = length;
  m.target.rkey = r.rkey.value;
  m.target.queue_key = (r.remote_qkey & kOwnKey) != 0 ? qp.queue_key : r.remote_qkey;
  m.dest = r.to != nullptr ? r.remote_qpn : *qp.attributes.dest_qpn;
  m.source = qp.number;
  m.qp = &qp;
  m.request.id = r.id;
  m.target.address = r.remote_address;
  m.target.operand = r.compare_add;
  m.target.swap = r.swap;
  m.target.immediate = uint64_t{r.imm_high} << 32 | r.imm;
  m.local.domain = qp.domain;
  m.request.slot = qp.sends.take();
  if (m.local.is_inline) {
    std::byte* to = m.local.inline_data = qp.sends.inline_data(m.request.slot);
    for (const Sge& sge : r.sges) {
      if (sge.length != 0) std::memcpy(to, sge.address, sge.length);
      to += sge.length;
    }
  } else {
    m.local.sge_count = static_cast<uint8_t>(r.sges.size());
    std::copy(r.sges.begin(), r.sges.end(), qp.sends.sges(m.request.slot));
    m.local.sges = qp.sends.sges(m.request.slot);
  }
  m.peer = &peer;
  peer.tx.queues.assign_order(m);
  add_message(ctx, m);
  return true;
}

}  // namespace

PostStatus Engine::post_send(QueuePair& qp, std::span<const SendRequest> requests,
                             Instant now) noexcept {
  (void)now;
  PostStatus status;
  if (qp.state != QpState::rts && qp.state != QpState::sqd && qp.state != QpState::err)
    return {Code::bad_state, 0, "sends can be posted in RTS, SQD and ERR only"};
  const auto stop = [&status](Code code, const char* reason) {
    status.code = code;
    status.reason = reason;
    return status;
  };
  for (const SendRequest& r : requests) {
    uint32_t length = 0;
    if (const char* reason = invalid_reason(qp, r, config.limits.max_message, length))
      return stop(Code::invalid_argument, reason);
    if (qp.state == QpState::err) {
      complete_flushed(qp, *qp.send_cq, r.id, work_type(r.opcode));
      ++status.accepted;
      continue;
    }
    if (qp.sends.full())
      return stop(Code::queue_full,
                  "the send queue is full: poll completions, or raise max_send_wr");
    const Gid& to = r.to != nullptr ? r.to->path().destination : qp.attributes.path->destination;
    const QpNum number = r.to != nullptr ? r.remote_qpn : *qp.attributes.dest_qpn;
    Peer* peer = peers.find(to, number.value >> 16);
    if (peer == nullptr) peer = add_peer(*this, to, number.value >> 16);
    if (peer == nullptr)
      return stop(Code::no_memory, "the device has all its peers in use, or there is no memory");
    if (!post_message(*this, qp, *peer, r, length))
      return stop(Code::no_memory, "there is no memory left");
    bulk_posted_ = bulk_posted_ || length > kBulk;
    ++status.accepted;
  }
  return status;
}

PostStatus Engine::post_recv(QueuePair& qp, std::span<const RecvRequest> requests) noexcept {
  PostStatus status;
  if (qp.state == QpState::reset)
    return {Code::bad_state, 0, "receives can be posted from INIT on"};
  for (const RecvRequest& r : requests) {
    uint32_t length = 0;
    if (const char* reason = transport::invalid_reason(
            r, {qp.receives.slots.max_sge(), 0, config.limits.max_message}, length)) {
      status.code = Code::invalid_argument;
      status.reason = reason;
      break;
    }
    if (qp.state == QpState::err) {
      complete_flushed(qp, *qp.recv_cq, r.id, WorkType::recv);
      ++status.accepted;
      continue;
    }
    if (qp.receives.full()) {
      status.code = Code::queue_full;
      status.reason = "the receive queue is full: poll completions, or raise max_recv_wr";
      break;
    }
    const uint32_t slot = qp.receives.slots.take();
    qp.receives[slot] = {r.id, length, static_cast<uint32_t>(r.sges.size())};
    std::copy(r.sges.begin(), r.sges.end(), qp.receives.slots.sges(slot));
    qp.receives.push(slot);
    ++status.accepted;
  }
  schedule_ready(*this, qp);
  return status;
}

}  // namespace weft::srd
