// SPDX-License-Identifier: BSD-3-Clause
// What a fresh packet asks for, executed at once and at its place: the bytes go where they belong
// on arrival, in whatever order packets come. A refused packet has changed nothing, except that
// payload of a WRITE or SEND may have been placed in part when a page was missing.
#include <algorithm>

#include "lib/memory/guarded_copy.hpp"
#include "lib/srd/engine.hpp"

namespace weft::srd {

using wire::SrdOpcode;
using wire::SrdReason;

namespace {
constexpr uint32_t kMostAnswersPerPeer = 256;
}  // namespace

Engine::Outcome Engine::execute(Peer& peer, const Arrival& a, SrdReason& why) noexcept {
  const wire::SrdPacket& p = a.packet;
  switch (p.opcode) {
    case SrdOpcode::fill:
      return Outcome::executed;
    case SrdOpcode::abort:
      return abort_assembly(peer, p.message) || p.detail != 0 ? skip(peer, p) : Outcome::executed;
    case SrdOpcode::read_response:
    case SrdOpcode::atomic_response:
    case SrdOpcode::failure:
      return execute_answer(peer, a);
    default:
      break;
  }
  QueuePair* const qp = find_qp(p.dest);
  if (qp == nullptr || !qp->can_receive()) {
    if (qp == nullptr) port_.forget(p.dest);  // as engine.cpp does
    count(qp == nullptr ? Count::rx_unknown_qp : Count::rx_wrong_state);
    why = SrdReason::no_queue_pair;
    return Outcome::refused;
  }
  switch (p.opcode) {
    case SrdOpcode::send:
      return execute_send(peer, *qp, a, why);
    case SrdOpcode::write:
      return execute_write(peer, *qp, a, why);
    case SrdOpcode::write_add:
      return execute_add(*qp, a, why);
    case SrdOpcode::read_request:
      return execute_read(peer, *qp, a, why);
    default:
      return execute_atomic(peer, *qp, a, why);
  }
}

// The one copy: from the port's buffer, or from the sender's memory, to `to`.
Engine::Outcome Engine::copy(std::byte* to, const Arrival& a, uint32_t offset, uint32_t length,
                             SrdReason& why) noexcept {
  const Frame& frame = a.frame;
  if (frame.remote != nullptr && frame.remote_length != 0) {
    count(Count::rx_by_reference);
    if (frame.remote->pull(to, frame.remote_address + offset, length)) return Outcome::executed;
    count(Count::rx_pull_failed);
    return Outcome::dropped;  // the sender's memory is gone: it will say so itself
  }
  const std::byte* const from = frame.more_length != 0 ? frame.more : a.packet.payload;
  if (memory::copy_in(to, from + offset, length)) return Outcome::executed;
  why = SrdReason::memory;
  return Outcome::refused;
}

// Payload to the `offset`-th byte of a list of entries.
Engine::Outcome Engine::place(const Sge* sges, uint32_t entries, uint32_t domain, uint32_t offset,
                              const Arrival& a, SrdReason& why) noexcept {
  const uint32_t length = a.packet.payload_length;
  for (uint32_t i = 0, done = 0; done != length && i < entries; ++i) {
    if (offset >= sges[i].length) {
      offset -= sges[i].length;
      continue;
    }
    const uint32_t piece = std::min(length - done, sges[i].length - offset);
    std::byte* where;
    why = SrdReason::memory;
    if (keys_.check(sges[i].lkey.value, domain,
                    reinterpret_cast<uint64_t>(sges[i].address) + offset, piece,
                    Access::local_write, &where) != memory::Verdict::ok)
      return Outcome::refused;
    const Outcome copied = copy(where, a, done, piece, why);
    if (copied != Outcome::executed) return copied;
    done += piece;
    offset = 0;
  }
  return Outcome::executed;
}

void Engine::complete_receive(Peer& peer, QueuePair& qp, uint32_t slot, const Arrival& a,
                              uint32_t bytes) noexcept {
  const wire::SrdPacket& p = a.packet;
  const bool imm = p.has(wire::srd_flag::kImmediate);
  Completion c;
  c.id = qp.receives[slot].id;
  c.byte_count = bytes;
  c.qp = qp.number;
  c.source_qp = p.source;
  c.source_peer = first_peer() + peer.index;
  c.type = imm ? WorkType::recv_with_imm : WorkType::recv;
  if (imm) {
    c.imm_or_key = static_cast<uint32_t>(p.immediate);
    c.imm_high = static_cast<uint32_t>(p.immediate >> 32);
    c.flags = CompletionFlags::with_imm;
  }
  if (p.opcode == SrdOpcode::write) c.flags = c.flags | CompletionFlags::rdma_write;
  qp.receives.slots.give(slot);
  if (p.opcode == SrdOpcode::send && p.has(wire::srd_flag::kOrdered))
    return hold(peer, p.order, c, p.has(wire::srd_flag::kSolicited));
  complete(qp, *qp.recv_cq, c, p.has(wire::srd_flag::kSolicited));
}

Engine::Outcome Engine::execute_send(Peer& peer, QueuePair& qp, const Arrival& a,
                                     SrdReason& why) noexcept {
  const wire::SrdPacket& p = a.packet;
  const bool whole = !p.has(wire::srd_flag::kFragment);
  if (p.offset > p.length || p.payload_length > p.length - p.offset || (!whole && p.length == 0)) {
    why = SrdReason::invalid;
    return Outcome::refused;
  }
  const uint64_t name = AssemblyTable::name_of(peer.index, p.message);
  Assembly* assembly = whole ? nullptr : assemblies_.find(name);
  const bool ordered = p.has(wire::srd_flag::kOrdered);
  if (assembly != nullptr && (assembly->qp != qp.number || assembly->length != p.length ||
                              assembly->ordered != ordered || assembly->order != p.order)) {
    why = SrdReason::invalid;
    return Outcome::refused;
  }
  if (assembly == nullptr && !may_bind(peer, qp, p, why)) return Outcome::refused;
  const uint32_t slot = assembly != nullptr ? assembly->receive : qp.receives.front();
  const Receive& receive = qp.receives[slot];
  if (p.length > receive.length) {
    why = SrdReason::length;
    return Outcome::refused;
  }
  const bool full = peer.rx.assemblies >= AssemblyTable::kMostPerPeer;
  if (!whole && assembly == nullptr && (full || !assemblies_.provide())) {
    why = SrdReason::busy;
    return Outcome::refused;
  }
  const Outcome placed =
      place(qp.receives.slots.sges(slot), receive.sge_count, qp.domain, p.offset, a, why);
  if (placed != Outcome::executed) return placed;
  if (assembly == nullptr && ordered) peer.rx.order->bound.add(p.order);
  if (whole) {
    qp.receives.pop();
    leave_line(peer, qp, p.detail != 0);
    complete_receive(peer, qp, slot, a, p.length);
    return Outcome::executed;
  }
  if (assembly == nullptr) {  // the first packet that arrives binds a receive
    assembly = assemblies_.insert(name);
    assembly->qp = qp.number;
    assembly->receive = qp.receives.pop();
    assembly->length = p.length;
    assembly->ordered = ordered;
    assembly->order = p.order;
    ++peer.rx.assemblies;
    leave_line(peer, qp, p.detail != 0);
  }
  assembly->received += p.payload_length;
  if (assembly->received < p.length) return Outcome::executed;
  assemblies_.remove(assembly);
  --peer.rx.assemblies;
  complete_receive(peer, qp, slot, a, p.length);
  return Outcome::executed;
}

//= threat:A05 threat:A06
Engine::Outcome Engine::execute_write(Peer& peer, QueuePair& qp, const Arrival& a,
                                      SrdReason& why) noexcept {
  const wire::SrdPacket& p = a.packet;
  const bool imm = p.has(wire::srd_flag::kImmediate);
  const bool whole = !p.has(wire::srd_flag::kFragment);
  why = SrdReason::access;
  if (!has(qp.access, Access::remote_write)) return Outcome::refused;
  std::byte* where = nullptr;
  if (p.payload_length != 0 && keys_.check(p.rkey, qp.domain, p.address, p.payload_length,
                                           Access::remote_write, &where) != memory::Verdict::ok)
    return Outcome::refused;
  const uint64_t name = AssemblyTable::name_of(peer.index, p.message);
  Assembly* assembly = nullptr;
  bool last = imm;
  if (imm && !whole) {
    why = SrdReason::invalid;
    if (p.length == 0 || p.payload_length > p.length) return Outcome::refused;
    assembly = assemblies_.find(name);
    const bool full = peer.rx.assemblies >= AssemblyTable::kMostPerPeer;
    why = SrdReason::busy;
    if (assembly == nullptr && (full || !assemblies_.provide())) return Outcome::refused;
    why = SrdReason::invalid;
    if (assembly != nullptr && (assembly->qp != qp.number || assembly->length != p.length))
      return Outcome::refused;
    const uint32_t received = assembly != nullptr ? assembly->received : 0;
    last = received + p.payload_length >= p.length;
  }
  if (last && receives_for(peer, qp) == 0) {
    why = stand_in_line(peer, qp);
    return Outcome::refused;
  }
  if (p.payload_length != 0) {
    const Outcome copied = copy(where, a, 0, p.payload_length, why);
    if (copied != Outcome::executed) return copied;
  }
  if (imm && !whole && assembly == nullptr) {
    assembly = assemblies_.insert(name);
    assembly->receive = Slots::kNone;
    assembly->qp = qp.number;
    assembly->length = p.length;
    ++peer.rx.assemblies;
  }
  if (assembly != nullptr) assembly->received += p.payload_length;
  if (!last) return Outcome::executed;
  if (assembly != nullptr) {
    assemblies_.remove(assembly);
    --peer.rx.assemblies;
  }
  const uint32_t slot = qp.receives.pop();
  leave_line(peer, qp, p.detail != 0);
  complete_receive(peer, qp, slot, a, p.length);
  return Outcome::executed;
}

void Engine::give_back(Assembly& assembly) noexcept {
  QueuePair* const qp = find_qp(assembly.qp);
  if (qp == nullptr || assembly.receive == Slots::kNone) return;
  qp->receives.give_back(assembly.receive);
  offer(*qp);
}

// False: there is none.
bool Engine::abort_assembly(Peer& peer, uint32_t message) noexcept {
  Assembly* const assembly = assemblies_.find(AssemblyTable::name_of(peer.index, message));
  if (assembly == nullptr) return false;
  give_back(*assembly);
  assemblies_.remove(assembly);
  --peer.rx.assemblies;
  return true;
}

// An answer in the line of the peer, or null when there are too many.
Message* Engine::new_answer(Peer& peer, const QueuePair& qp, const Arrival& a,
                            SrdOpcode kind) noexcept {
  if (peer.rx.answers >= kMostAnswersPerPeer) return nullptr;
  Message* const m = messages_.take_answer();
  if (m == nullptr) return nullptr;
  ++peer.rx.answers;
  m->kind = kind;
  m->request_id = a.packet.message;
  m->dest = a.packet.source;
  m->source = qp.number;
  m->domain = qp.domain;
  m->peer = &peer;
  return m;
}

Engine::Outcome Engine::execute_read(Peer& peer, QueuePair& qp, const Arrival& a,
                                     SrdReason& why) noexcept {
  const wire::SrdPacket& p = a.packet;
  why = SrdReason::access;
  std::byte* where;
  if (!has(qp.access, Access::remote_read)) return Outcome::refused;
  if (p.length != 0 && keys_.check(p.rkey, qp.domain, p.address, p.length, Access::remote_read,
                                   &where) != memory::Verdict::ok)
    return Outcome::refused;
  Message* const m = new_answer(peer, qp, a, SrdOpcode::read_response);
  if (m == nullptr) {
    why = SrdReason::busy;
    return Outcome::refused;
  }
  m->address = p.address;
  m->rkey = p.rkey;
  m->length = p.length;
  enlist(*m);
  return Outcome::executed;
}

//= threat:A10 the sequence number of the packet sees to it that this happens once
Engine::Outcome Engine::execute_atomic(Peer& peer, QueuePair& qp, const Arrival& a,
                                       SrdReason& why) noexcept {
  const wire::SrdPacket& p = a.packet;
  why = SrdReason::access;
  std::byte* where;
  if (!has(qp.access, Access::remote_atomic)) return Outcome::refused;
  if (keys_.check(p.rkey, qp.domain, p.address, 8, Access::remote_atomic, &where) !=
      memory::Verdict::ok)
    return Outcome::refused;
  if (p.address % 8 != 0) {
    why = SrdReason::invalid;
    return Outcome::refused;
  }
  Message* const m = new_answer(peer, qp, a, SrdOpcode::atomic_response);
  if (m == nullptr) {
    why = SrdReason::busy;
    return Outcome::refused;
  }
  const wire::SrdOperands& o = p.two_operands();
  const bool done = p.opcode == SrdOpcode::compare_swap
                        ? memory::compare_swap(where, o.add_or_compare, o.swap, &m->operand)
                        : memory::fetch_add(where, o.add_or_compare, &m->operand);
  if (!done) {
    --peer.rx.answers;
    messages_.give_answer(*m);
    why = SrdReason::memory;
    return Outcome::refused;
  }
  enlist(*m);
  return Outcome::executed;
}

// A READ's bytes, an atomic's value, or the news that a READ cannot be answered. Answers to
// requests that nobody waits for any more are taken and forgotten.
Engine::Outcome Engine::execute_answer(Peer& peer, const Arrival& a) noexcept {
  const wire::SrdPacket& p = a.packet;
  Message* const m = messages_.find(p.message);
  if (m == nullptr || m->peer != &peer || !m->wants_answer() || m->answered || m->qp == nullptr ||
      m->state == Message::State::cancelled) {
    count(Count::rx_stale_response);
    return Outcome::executed;
  }
  const bool read = m->kind == SrdOpcode::read_request;
  const bool fits = p.opcode == SrdOpcode::read_response && read && p.length == m->length &&
                    p.offset <= p.length && p.payload_length <= p.length - p.offset;
  const bool value = p.opcode == SrdOpcode::atomic_response && !read;
  SrdReason why = SrdReason::none;
  Outcome placed = Outcome::executed;
  if (p.opcode == SrdOpcode::failure) {
    m->status = Status::remote_access_error;
    m->reason = p.detail;
  } else if (fits) {
    placed = place(m->sges, m->sge_count, m->domain, p.offset, a, why);
    if (placed == Outcome::dropped) return placed;
    m->received += p.payload_length;
  } else if (value) {
    const uint64_t original = p.value();
    wire::SrdPacket local = p;
    local.payload = reinterpret_cast<const std::byte*>(&original);
    local.payload_length = sizeof original;
    placed = place(m->sges, m->sge_count, m->domain, 0, {local, a.frame, a.now}, why);
  } else {
    count(Count::rx_bad_response);
    m->status = Status::bad_response;
  }
  if (placed == Outcome::refused) m->status = Status::local_protection_error;
  peer.tx.probe_answers_at = a.now + Duration::from_ms(50);
  if (m->status == Status::success && fits && m->received < m->length) return Outcome::executed;
  // The answer is as good as an acknowledgement of the request.
  m->answered = true;
  if (m->unacked != 0 && peer.tx.flight != nullptr) {
    acknowledge(peer, m->first_sequence, false);
    advance(peer.tx);
    activate(peer);
  }
  if (m->state == Message::State::sent && m->unacked == 0) finish(*m);
  return Outcome::executed;
}

}  // namespace weft::srd
