// SPDX-License-Identifier: BSD-3-Clause
// Posting work: requests are checked and become messages in their peer's line; the next transmit()
// sends them.
#include <algorithm>
#include <cstring>

#include "lib/srd/engine.hpp"

namespace weft::srd {

namespace {

constexpr uint32_t kSmallPackets = 16;  // a message of more takes turns with others

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

}  // namespace

// Why a request cannot be posted, or nullptr. `length` gets the sum of its entries.
const char* Engine::invalid_reason(const QueuePair& qp, const SendRequest& r,
                                   uint32_t& length) const noexcept {
  if (r.opcode > Opcode::local_invalidate) return "this provider has no such opcode";
  if (is_local(r.opcode)) return "SRD has no memory windows";
  if (is_effect(r.opcode)) return "SRD has no ATOMIC WRITE and no FLUSH";
  if (r.opcode == Opcode::send_with_invalidate) return "SRD has no SEND with invalidate";
  if (const char* const reason = transport::invalid_reason(
          r, {qp.sends.max_sge(), qp.max_inline, config_.limits.max_message}, length))
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

namespace {

// Not what a switch marks packets with that it has trimmed.
uint8_t class_of(const AddressVector& path) {
  return wire::is_trimmed(path.traffic_class) ? 0 : path.traffic_class & 0xFC;
}

}  // namespace

// False: there is no memory.
bool Engine::append(QueuePair& qp, Peer& peer, const SendRequest& r, uint32_t length) noexcept {
  Message* const message = messages_.take_reserved();
  if (message == nullptr) return false;
  Message& m = *message;
  m.kind = kind_of(r.opcode);
  m.opcode = r.opcode;
  m.signaled = qp.signal_all || has(r.flags, SendFlags::signaled);
  m.solicited = has(r.flags, SendFlags::solicited);
  m.is_inline = has(r.flags, SendFlags::inline_data);
  m.has_immediate = has_immediate(r.opcode);
  m.in_turn = has(r.flags, SendFlags::ordered) && r.opcode == Opcode::write_add;
  m.ordered = has(r.flags, SendFlags::ordered) && !m.in_turn;
  m.detail = static_cast<uint8_t>(r.element);
  m.traffic_class = class_of(r.to != nullptr ? r.to->path() : *qp.attributes.path);
  m.length = length;
  m.rkey = r.rkey.value;
  m.dest = r.to != nullptr ? r.remote_qpn : *qp.attributes.dest_qpn;
  m.source = qp.number;
  m.qp = &qp;
  m.wr_id = r.id;
  m.address = r.remote_address;
  m.operand = r.compare_add;
  m.swap = r.swap;
  m.immediate = uint64_t{r.imm_high} << 32 | r.imm;
  m.domain = qp.domain;
  m.slot = qp.sends.take();
  if (m.is_inline) {
    std::byte* to = m.inline_data = qp.sends.inline_data(m.slot);
    for (const Sge& sge : r.sges) {
      if (sge.length != 0) std::memcpy(to, sge.address, sge.length);
      to += sge.length;
    }
  } else {
    m.sge_count = static_cast<uint8_t>(r.sges.size());
    std::copy(r.sges.begin(), r.sges.end(), qp.sends.sges(m.slot));
    m.sges = qp.sends.sges(m.slot);
  }
  m.peer = &peer;
  number(m);
  enlist(m);
  return true;
}

// Puts a new message into its peer's lines.
void Engine::enlist(Message& m) noexcept {
  Peer& peer = *m.peer;
  m.next_all = peer.tx.all;
  if (peer.tx.all != nullptr) peer.tx.all->previous_all = &m;
  m.previous_all = nullptr;
  peer.tx.all = &m;
  if (m.wants_answer()) ++peer.tx.awaiting;
  line_up(m);
  activate(peer);
}

// In the line that its length and its place among ordered ones call for.
void Engine::line_up(Message& m) noexcept {
  Sender& tx = m.peer->tx;
  if (m.ordered && !tx.order.within(m.order)) return tx.later.push(m);
  if (m.in_turn) {
    if (tx.adding != nullptr) return tx.adds.push(m);
    tx.adding = &m;
  }
  const bool quick = m.urgency() >= 0 || m.payload() <= kSmallPackets * mtu_;
  (quick ? tx.quick(m) : tx.bulk).push(m);
}

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
    if (const char* reason = invalid_reason(qp, r, length))
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
    Peer* peer = find_peer(to, number.value >> 16);
    if (peer == nullptr) peer = add_peer(to, number.value >> 16);
    if (peer == nullptr)
      return stop(Code::no_memory, "the device has all its peers in use, or there is no memory");
    if (!append(qp, *peer, r, length)) return stop(Code::no_memory, "there is no memory left");
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
            r, {qp.receives.slots.max_sge(), 0, config_.limits.max_message}, length)) {
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
  offer(qp);
  return status;
}

}  // namespace weft::srd
