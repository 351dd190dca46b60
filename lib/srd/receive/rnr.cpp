// SPDX-License-Identifier: BSD-3-Clause
// Receives for those who wait for one (receive_line.hpp): the receiver's side keeps the line and
// calls, the sender's side comes when it is called.
#include <new>

#include "lib/srd/engine.hpp"
#include "lib/srd/state/rnr_queue.hpp"

namespace weft::srd {

namespace {
constexpr Duration kKeep = Duration::from_ms(2);  // a receive for one who was called
}  // namespace

// How many receives a new message of `peer` may choose from.
uint32_t Engine::receives_for(const Peer& peer, const QueuePair& qp) const noexcept {
  const uint32_t all = qp.receives.size();
  if (qp.line == nullptr) return all;
  const uint32_t kept = qp.line->kept_from(peer.index);
  return all > kept ? all - kept : 0;
}

// The message finds no receive. What the peer is told: to wait until it is called, or to come
// again. //= threat:A20
wire::SrdReason Engine::stand_in_line(const Peer& peer, QueuePair& qp) noexcept {
  if (qp.line == nullptr) qp.line.reset(new (std::nothrow) ReceiveLine);
  if (qp.line == nullptr) return wire::SrdReason::busy;
  return qp.line->join({peer.index}) ? wire::SrdReason::no_receive : wire::SrdReason::busy;
}

// The message takes a receive. `more`: its sender has others that wait.
void Engine::leave_line(const Peer& peer, QueuePair& qp, bool more) noexcept {
  if (qp.line == nullptr) return;
  qp.line->keep(peer.index);
  if (more) qp.line->join({peer.index});
  offer(qp);
}

// There may be a receive for somebody in line: the next transmit() looks.
void Engine::offer(QueuePair& qp) noexcept {
  if (qp.line == nullptr || qp.line->nobody()) return;
  if (qp.receives.size() > qp.line->promises()) calling_.push(qp);
}

void Engine::send_calls(Instant now) noexcept {
  while (!calling_.empty() && room()) {
    QueuePair& qp = *calling_.front();
    ReceiveLine& line = *qp.line;
    if (line.nobody() || qp.receives.size() <= line.promises()) {
      calling_.pop();
      continue;
    }
    const Peer& peer = *peers_[line.promise(now + kKeep)];
    promising_.push(qp);
    lapse_at_ = std::min(lapse_at_, now + kKeep);
    next_deadline_ = std::min(next_deadline_, lapse_at_);
    if (!peer.rx.known) continue;
    wire::SrdPacket p;
    p.opcode = wire::SrdOpcode::ready;
    p.dest = peer.endpoint();
    p.source = qp.number;
    p.epoch = peer.rx.epoch;
    p.incarnation = peer.incarnation;
    // The way that something came from it last.
    const Way way = peer.rx.way;
    const uint16_t source_port =
        source_port_of(way.local, static_cast<uint32_t>(random_.below(entropies_)));
    const Path& path = path_of(address_of(peer, way.remote), way.local, source_port, 0);
    std::byte* const at = builder_.start(path, wire::srd_emit_length(p), 0);
    wire::srd_emit(at, p, 0);
    builder_.finish();
    count(Count::tx_calls);
  }
}

// Receives that were kept for somebody who did not come are for the next one.
void Engine::end_promises(Instant now) noexcept {
  if (lapse_at_ > now) return;
  lapse_at_ = Instant::never();
  base::Line<QueuePair, &QueuePair::promising> still;
  while (!promising_.empty()) {
    QueuePair& qp = promising_.pop();
    qp.line->lapse(now);
    offer(qp);
    if (!qp.line->promised()) continue;
    lapse_at_ = std::min(lapse_at_, qp.line->lapses_at());
    still.push(qp);
  }
  promising_ = still;
}

void Engine::end_line(QueuePair& qp) noexcept {
  calling_.remove(qp);
  promising_.remove(qp);
  qp.line.reset();
}

// The peer has a receive for us: the oldest message that rests for want of one goes at once. One
// that is still being taken back (cancel.cpp) does not rest when it is.
void Engine::on_ready(Peer& peer, const Arrival& arrival) noexcept {
  const wire::SrdPacket& p = arrival.packet;
  if (p.epoch != peer.tx.epoch || p.incarnation != peer.tx.incarnation)
    return count(Count::rx_stale_response);
  count(Count::rx_calls);
  Message* oldest = nullptr;
  for (Message* m = peer.tx.all; m != nullptr; m = m->next_all)
    if (m->dest == p.source && m->takes_receive() && m->waits() && m->resume_at > arrival.now)
      oldest = m;
  if (oldest == nullptr) return;
  oldest->resume_at = arrival.now;
  if (oldest->state == Message::State::resting) wake(*oldest);
}

// Whether the sender of `m` has other messages that wait for a receive of the same queue pair.
bool Engine::others_wait(const Message& m) const noexcept {
  if (m.rests == 0 && m.peer->tx.resting == 0) return false;
  for (const Message* other = m.peer->tx.all; other != nullptr; other = other->next_all)
    if (other != &m && other->dest == m.dest && other->takes_receive() && other->waits())
      return true;
  return false;
}

bool Engine::older_waits(const Message& m) const noexcept {
  for (const Message* older = m.next_all; older != nullptr; older = older->next_all)
    if (older->dest == m.dest && older->takes_receive() && older->waits()) return true;
  return false;
}

}  // namespace weft::srd
