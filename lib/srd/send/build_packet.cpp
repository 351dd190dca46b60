// SPDX-License-Identifier: BSD-3-Clause
// What a packet of a stream is made of.
#include <algorithm>
#include <cstring>

#include "lib/memory/guarded_copy.hpp"
#include "lib/srd/send/send.hpp"

namespace weft::srd {

namespace {

constexpr uint8_t kEcnCapable = 2;     // ECT(0)
constexpr uint64_t kRequestBelow = 8;  // packets in the window: each requests an acknowledgement
constexpr int kMostCounted = 64;       // messages and lost packets, to find the backlog

// Credit in all, in units. The backlog is counted as far as it can matter.
uint32_t requested_credit(const Sender& tx, uint32_t mtu) noexcept {
  int counted = 0;
  uint64_t backlog = tx.queues.backlog(mtu, kMostCounted, counted);
  for (uint16_t at = tx.flight->lost.oldest; at != RecordList::kNone && counted < kMostCounted;
       at = tx.flight->at(at).newer, ++counted)
    backlog += mtu;
  return tx.credit_granted + (backlog != 0 ? tx.flight->flow.credit_wanted(backlog) : 0);
}

// The headers of a data packet.
void fill_header(SendContext& ctx, const Message& m, const Record& r, wire::SrdPacket& p) noexcept {
  WEFT_DCHECK(r.kind == Record::Kind::data && r.offset + r.length <= m.payload_length());
  p.opcode = m.kind;
  p.detail = m.consumes_receive() ? static_cast<uint8_t>(has_other_rnr_waiter(m)) : m.detail;
  p.dest = m.dest;
  p.source = m.source;
  p.message = m.is_response() ? m.peer_message : m.id;
  p.length = m.length;
  p.offset = r.offset;
  p.address = m.target.address + r.offset;
  p.rkey = m.target.rkey;
  p.queue_key = m.target.queue_key;
  p.immediate = m.target.immediate;
  if (m.solicited) p.flags |= wire::srd_flag::kSolicited;
  if (m.has_immediate) p.flags |= wire::srd_flag::kImmediate;
  if (m.ordered) p.flags |= wire::srd_flag::kOrdered;
  p.order = m.order;
  const bool cut = m.kind == wire::SrdOpcode::read_response && m.length > ctx.mtu;
  if (cut || m.kind == wire::SrdOpcode::read_request || m.needs_assembly(ctx.mtu))
    p.flags |= wire::srd_flag::kFragment;
}

// False: the memory is not registered any more.
bool add_payload(SendContext& ctx, const Message& m, uint32_t offset, uint32_t length,
                 bool first) noexcept {
  std::byte* where;
  if (m.is_response()) {
    return ctx.keys().check(m.target.rkey, m.local.domain, m.target.address + offset, length,
                            Access::remote_read, &where) == memory::Verdict::ok &&
           ctx.builder().add_payload(where, length, first);
  }
  if (m.local.is_inline) {
    ctx.builder().add_safe_payload(m.local.inline_data + offset, length);
    return true;
  }
  for (uint32_t i = 0; length != 0; ++i) {
    WEFT_DCHECK(i < m.local.sge_count);
    const Sge& sge = m.local.sges[i];
    if (offset >= sge.length) {
      offset -= sge.length;
      continue;
    }
    const uint32_t piece = std::min(length, sge.length - offset);
    const uint64_t address = reinterpret_cast<uint64_t>(sge.address) + offset;
    if (ctx.keys().check(sge.lkey.value, m.local.domain, address, piece, Access::none, &where) !=
        memory::Verdict::ok)
      return false;
    if (!ctx.builder().add_payload(where, piece, first)) return false;
    length -= piece;
    offset = 0;
  }
  return true;
}

}  // namespace

bool build_packet(SendContext& ctx, Peer& peer, Record& r, uint64_t sequence) noexcept {
  const Message* const m = r.message;
  WEFT_DCHECK(r.kind == Record::Kind::fill ? r.length == 0 : m != nullptr && m->peer == &peer);
  WEFT_DCHECK(peer.tx.epoch != 0 && peer.tx.incarnation() != 0);
  WEFT_DCHECK(r.state == Record::State::in_flight);
  wire::SrdPacket p;
  p.path = r.path;
  p.path_sequence = r.path_sequence;
  p.epoch = peer.tx.epoch;
  p.incarnation = peer.tx.incarnation();
  wire::SrdIntroduction introduction;
  if (!peer.tx.confirmed) {
    introduction.stamp = peer.tx.welcome.stamp;
    introduction.process = ctx.incarnations.process_for(peer.address, peer.qpn_prefix);
    introduction.first = peer.tx.first;
    p.introduction = &introduction;
  }
  p.sequence = sequence;
  p.dest = peer.endpoint();
  p.source = ctx.endpoint();
  if (r.tries > 1) p.flags |= wire::srd_flag::kRetransmission;
  if (peer.tx.queues.empty() || peer.tx.flight->flow.window() < kRequestBelow * ctx.mtu)
    p.flags |= wire::srd_flag::kAckRequest;
  if (r.kind == Record::Kind::fill) {
    p.opcode = wire::SrdOpcode::fill;
    ctx.count(Count::tx_fills);
  } else if (r.kind == Record::Kind::abort) {
    p.opcode = wire::SrdOpcode::abort;
    p.message = m->id;
    p.order = m->order;
    if (m->ordered) p.flags |= wire::srd_flag::kOrdered;
    p.detail = m->rnr.retry ? 0 : 1;
    ctx.count(Count::tx_aborts);
  } else {
    fill_header(ctx, *m, r, p);
  }
  if (peer.tx.flight->flow.credited()) {
    p.flags |= wire::srd_flag::kCreditRequest;
    p.requested_credit = requested_credit(peer.tx, ctx.mtu);
  }
  const uint32_t operands = wire::operand_bytes(p.opcode);
  const Route route = ctx.route_of(peer, r.path);
  const unsigned traffic_class = m != nullptr ? m->traffic_class : 0;
  const Path& path = ctx.path_to(
      peer, route, ctx.frame_paths.source_port(route.local, r.path),
      static_cast<uint8_t>(traffic_class | (ctx.capabilities().ecn ? kEcnCapable : 0u)));
  std::byte* at = ctx.builder().start(path, wire::srd_emit_length(p) + operands, r.length);
  at = wire::srd_emit(at, p, ctx.builder().pad_for(r.length));
  if (operands == 8) {
    const base::Be64 value = m->target.operand;
    std::memcpy(at, &value, sizeof value);
  } else if (operands != 0) {
    const wire::SrdOperands both{m->target.operand, m->target.swap};
    std::memcpy(at, &both, sizeof both);
  }
  if (r.length != 0 && !add_payload(ctx, *m, r.offset, r.length, r.tries == 1)) {
    ctx.builder().cancel();
    return false;
  }
  ctx.builder().finish();
  return true;
}

}  // namespace weft::srd
