// SPDX-License-Identifier: BSD-3-Clause
// Messages that end: because all of them arrived, because the receiver refused them, because a
// queue pair or a peer is gone.
//
// A sequence number that was used must be executed or filled before the stream can go on, so the
// packets of a message that ends early are sent again as fills. When nothing of it is in flight any
// more, none of its packets can be executed any more; only then the receiver is told to forget what
// it had of it, and only then it completes, or rests and begins anew under another name.
#include <algorithm>

#include "lib/srd/engine.hpp"

namespace weft::srd {

namespace {

constexpr int64_t kLeastRest = 40'000, kRestSpread = 80'000;  // ns: 40 to 120 us, then doubled
constexpr int kMostDoublings = 13;                            // about a second
constexpr int kInLine = 12;  // of one whom the receiver will call: a third of a second

Status status_of(wire::SrdReason reason) {
  switch (reason) {
    case wire::SrdReason::access:
      return Status::remote_access_error;
    case wire::SrdReason::memory:
      return Status::remote_operation_error;
    case wire::SrdReason::no_receive:
    case wire::SrdReason::busy:
      return Status::rnr_retry_exceeded;
    default:
      return Status::remote_invalid_request;
  }
}

}  // namespace

//= threat:A20 every refusal costs the sender a rest that doubles, with jitter
void Engine::on_refusal(Peer& peer, const Arrival& arrival) noexcept {
  const wire::SrdPacket& p = arrival.packet;
  Sender& tx = peer.tx;
  if (p.epoch != tx.epoch || tx.flight == nullptr) return count(Count::rx_stale_response);
  if (p.sequence < tx.una || p.sequence >= tx.next) return count(Count::rx_stale_response);
  Record& r = (*tx.flight)[p.sequence];
  Message* const m = r.message;
  if (r.state == Record::State::acked || r.kind != Record::Kind::data || m == nullptr)
    return count(Count::rx_stale_response);
  count(Count::rx_naks);
  tx.progress_at = arrival.now;
  const auto reason = static_cast<wire::SrdReason>(p.detail);
  m->reason = p.detail;
  const bool busy = reason == wire::SrdReason::busy;  // perhaps only the copy of what was refused
  const bool later = busy || reason == wire::SrdReason::no_receive;
  const uint8_t limit = m->qp != nullptr ? m->qp->rnr_retry : 7;
  if (later) count(Count::rx_rnr_naks);
  if (later && (busy || limit == 7 || m->rests < limit)) {
    m->resume_at = arrival.now + pause(m->rests + (busy ? 0 : kInLine));
    m->rests = static_cast<uint8_t>(std::min(m->rests + 1, 255));
    m->retry = true;
  } else {
    m->status = status_of(reason);
    if (later) count(Count::rnr_exceeded);
  }
  cancel(*m);
}

Duration Engine::pause(int doublings) noexcept {
  const int64_t ns = kLeastRest + random_.below(kRestSpread);
  return Duration::from_ns(ns << std::min(doublings, kMostDoublings));
}

void Engine::cancel(Message& m) noexcept {
  using State = Message::State;
  if (m.state == State::cancelled || m.state == State::aborting) return;
  Peer& peer = *m.peer;
  Sender& tx = peer.tx;
  const bool later = m.ordered && m.line.listed && !tx.order.within(m.order);
  if (m.state == State::queued && !later) delist(m);
  if (m.state == State::resting) --tx.resting;
  m.state = State::cancelled;
  for (uint64_t s = tx.una; s != tx.next && m.unacked != 0; ++s) {
    Record& r = (*tx.flight)[s];
    if (r.message != &m || r.state == Record::State::acked) continue;
    if (r.state == Record::State::in_flight) {
      if (r.counts()) tx.flight->flow.forget(r.length);
      lose(peer, s);
    }
    r.kind = Record::Kind::fill;
    r.length = 0;
  }
  if (m.unacked == 0) settle(m);
}

// Nothing of the message is in flight.
void Engine::settle(Message& m) noexcept {
  using State = Message::State;
  switch (m.state) {
    case State::sent:
      if (m.wants_answer() && !m.answered) return;
      return finish(m);
    case State::cancelled:
      if (m.answer() && m.kind == wire::SrdOpcode::read_response && m.status != Status::success) {
        m.kind = wire::SrdOpcode::failure;  // the rest of the READ cannot be had
        m.detail = static_cast<uint8_t>(wire::SrdReason::access);
        m.length = m.cursor = 0;
        m.status = Status::success;
        m.state = State::queued;
        m.peer->tx.quick(m).push(m);
        return activate(*m.peer);
      }
      // An ordered message that will never come has to be passed over.
      if ((m.cursor == 0 || !m.assembled(mtu_)) && (!m.ordered || m.retry)) return finish(m);
      m.state = State::aborting;
      m.peer->tx.quick(m).push(m);  // unless it stands beyond the window: then when its turn comes
      return activate(*m.peer);
    case State::aborting:
      return finish(m);
    default:
      return;
  }
}

void Engine::finish(Message& m) noexcept {
  if (m.retry && m.qp != nullptr) {
    m.retry = false;
    m.state = Message::State::resting;
    m.cursor = m.received = 0;
    m.answered = false;
    messages_.rename(m);
    ++m.peer->tx.resting;
    return arm(*m.peer, m.resume_at);
  }
  if (m.retry && m.ordered) {  // its receiver was told that it comes again
    m.retry = false;
    m.state = Message::State::aborting;
    m.peer->tx.quick(m).push(m);
    return activate(*m.peer);
  }
  complete_request(m, m.status);
  end_order(m);
  release(m);
}

void Engine::complete_request(Message& m, Status status) noexcept {
  if (m.qp == nullptr || (status == Status::success && !m.signaled)) return;
  Completion c;
  c.id = m.wr_id;
  c.qp = m.qp->number;
  c.status = status;
  c.type = work_type(m.opcode);
  c.byte_count = m.length;
  c.vendor_error = status == Status::success ? 0 : m.reason;
  if (status != Status::success && status != Status::flushed) note_failure(c.qp, status);
  complete(*m.qp, *m.qp->send_cq, c, false);
}

// The queue pair goes away, or has completed the request already.
void Engine::orphan(Message& m) noexcept {
  m.qp->sends.give(m.slot);
  messages_.adopt();
  m.qp = nullptr;
  m.retry = m.retry && m.state == Message::State::aborting;
}

void Engine::release(Message& m) noexcept {
  Peer& peer = *m.peer;
  (m.previous_all != nullptr ? m.previous_all->next_all : peer.tx.all) = m.next_all;
  if (m.next_all != nullptr) m.next_all->previous_all = m.previous_all;
  if (m.wants_answer()) --peer.tx.awaiting;
  end_turn(m);
  if (m.answer()) {
    --peer.rx.answers;
    return messages_.give_answer(m);
  }
  if (m.qp == nullptr) return messages_.give_answer(m);
  m.qp->sends.give(m.slot);
  messages_.give_reserved(m);
}

// An ordered WRITE_ADD has been executed, or never will be: the next one goes.
void Engine::end_turn(Message& m) noexcept {
  Sender& tx = m.peer->tx;
  if (tx.adding != &m) return;
  tx.adding = nullptr;
  if (tx.adds.empty()) return;
  line_up(tx.adds.pop());
  activate(*m.peer);
}

void Engine::wake(Message& m) noexcept {
  --m.peer->tx.resting;
  m.state = Message::State::queued;
  m.peer->tx.quick(m).push(m);
  activate(*m.peer);
}

// Of those that wait for a receive of the same queue pair only the oldest asks again by itself; it
// stands in line for all of them. //= threat:A20
void Engine::wake_resting(Peer& peer, Instant now) noexcept {
  for (Message* m = peer.tx.all; m != nullptr; m = m->next_all) {
    if (m->state != Message::State::resting || m->resume_at > now) continue;
    if (m->takes_receive() && older_waits(*m))
      m->resume_at = now + pause(kMostDoublings);
    else
      wake(*m);
  }
}

// The peer does not know our stream: it has restarted, or never heard of us, or asks for proof that
// we are where we say we are.
void Engine::on_reset(Peer& peer, const Arrival& arrival) noexcept {
  const wire::SrdPacket& p = arrival.packet;
  Sender& tx = peer.tx;
  if (p.epoch != tx.epoch || p.sequence < tx.una || p.sequence >= tx.next || p.incarnation == 0)
    return count(Count::rx_stale_response);
  count(Count::rx_resets);
  const uint32_t next_epoch = tx.epoch + 1;
  const bool later = p.message != 0 && static_cast<int32_t>(p.message - next_epoch) > 0;
  // A process that came meanwhile knows a stream of ours: perhaps one that this one follows, of
  // which a copy of a packet was executed there.
  const bool other = tx.incarnation != 0 && tx.incarnation != p.incarnation;
  if (other && p.message != 0 && static_cast<int32_t>(p.message - tx.since) > 0)
    tx.confirmed = true;
  restart_stream(peer, later ? p.message : next_epoch, p.incarnation, p.opened);
}

// All that is in flight is forgotten; the next packet begins a new stream.
void Engine::end_stream(Peer& peer, uint32_t least_epoch) noexcept {
  Sender& tx = peer.tx;
  drop_flight(peer);
  restart_rails(peer);
  tx.una = tx.next = 0;
  tx.epoch = tx.incarnation = tx.since = 0;
  tx.confirmed = tx.anew = false;
  tx.probes = 0;
  tx.backoff = 0;
  tx.duplicates = 0;
  tx.later.clear();
  tx.adds.clear();
  tx.adding = nullptr;
  tx.order = OrderSet{};
  tx.next_order = 0;
  tx.granted = 0;
  tx.marks = 0;
  for (MessageLine& line : tx.urgent) line.clear();
  tx.small.clear();
  tx.turns.clear();
  tx.bulk.clear();
  tx.turns_taken = 0;
  tx.probe_answers_at = Instant::never();
  peer.least_epoch = least_epoch != 0 ? least_epoch : 1;
}

// What nobody has acknowledged goes again in a new stream if no packet of the old one was ever
// executed; otherwise what was sent may or may not have been executed, and fails. If the process
// that wants the new stream is the one that we hear (it was opened before its stream of requests
// began), what we have sent since then found no other one, so that goes again too; and answers do.
void Engine::restart_stream(Peer& peer, uint32_t least_epoch, uint32_t incarnation,
                            uint32_t opened) noexcept {
  using State = Message::State;
  const bool asked = peer.rx.known && static_cast<int32_t>(opened - peer.rx.epoch) <= 0;
  const bool again = !peer.tx.confirmed || (asked && peer.tx.anew);
  const uint32_t since = again ? peer.tx.since : 0;
  Message* all = peer.tx.all;
  while (all != nullptr && all->next_all != nullptr) all = all->next_all;
  end_stream(peer, least_epoch);
  peer.tx.incarnation = incarnation;
  peer.tx.since = since;
  for (Message* m = all; m != nullptr;) {  // oldest first
    Message* const newer = m->previous_all;
    const bool untouched = m->state == State::queued && m->cursor == 0 && m->unacked == 0;
    m->unacked = 0;
    if (m->state == State::cancelled || m->state == State::aborting) {
      m->ordered = m->ordered && m->retry && m->qp != nullptr;
      number(*m);
      finish(*m);
    } else if (m->state == State::resting) {
      number(*m);
    } else if (m->answer() ? asked : untouched || again) {
      m->state = State::queued;
      m->cursor = m->received = 0;
      number(*m);
      line_up(*m);
    } else {
      complete_request(*m, Status::remote_aborted);
      release(*m);
    }
    m = newer;
  }
  activate(peer);
}

void Engine::fail_peer(Peer& peer, Status status) noexcept {
  const bool heard = peer.tx.incarnation != 0;
  end_stream(peer, peer.tx.epoch + 1);
  peer.tx.resting = 0;
  while (Message* m = peer.tx.all) {
    m->reason = heard;
    complete_request(*m, status);
    release(*m);
  }
  // Its requests will get no answers either, and it has to learn that.
  if (!peer.rx.known) return;
  retire(peer.rx.epoch);
  forget_stream(peer);
}

}  // namespace weft::srd
