// SPDX-License-Identifier: BSD-3-Clause
// See invariants.hpp.
#include "lib/srd/invariants.hpp"

#include "lib/base/check.hpp"
#include "lib/srd/engine.hpp"

namespace weft::srd {

namespace {

uint32_t length_of(const MessageLine& line) {
  uint32_t n = 0;
  for (const Message* m = line.front(); m != nullptr; m = m->line.next) {
    WEFT_DCHECK(m->line.listed);
    ++n;
  }
  return n;
}

// Every record of [una, next) is in the list of its state, and the sums agree with the records.
void check_flight(const Context& ctx, Peer& peer) {
  Sender& tx = peer.tx;
  Flight& flight = *tx.flight;
  WEFT_DCHECK(tx.unacked() <= flight.capacity());
  uint32_t in_flight = 0, lost = 0, acked = 0, of_messages = 0;
  uint64_t bytes = 0, in_port_window = 0;
  for (uint64_t s = tx.una; s != tx.next; ++s) {
    const Record& r = flight[s];
    WEFT_DCHECK(r.state != Record::State::free);
    in_flight += r.state == Record::State::in_flight;
    lost += r.state == Record::State::lost;
    acked += r.state == Record::State::acked;
    of_messages += r.message != nullptr;
    if (r.state == Record::State::in_flight && r.counts()) {
      bytes += Flow::on_wire(r.length);
      in_port_window += r.length + ctx.capabilities().packet_overhead;
    }
    WEFT_DCHECK(r.message == nullptr || (r.message->peer == &peer && r.message->unacked > 0));
    WEFT_DCHECK(r.state != Record::State::acked || r.message == nullptr);
    WEFT_DCHECK(r.state != Record::State::in_flight || r.tries > 0);
    WEFT_DCHECK(r.kind != Record::Kind::fill || r.length == 0);
  }
  WEFT_DCHECK(tx.una == tx.next || flight[tx.una].state != Record::State::acked);
  WEFT_DCHECK(in_flight + lost + acked == tx.unacked());
  WEFT_DCHECK(flight.paths.in_flight() == in_flight);
  WEFT_DCHECK(flight.flow.in_flight() == bytes);
  WEFT_DCHECK(flight.flow.in_port_window() == in_port_window);
  Instant sent;
  for (uint16_t at = flight.in_flight.oldest; at != RecordList::kNone; at = flight.at(at).newer) {
    WEFT_DCHECK(flight.at(at).state == Record::State::in_flight && sent <= flight.at(at).sent);
    sent = flight.at(at).sent;
    --in_flight;
  }
  for (uint16_t at = flight.lost.oldest; at != RecordList::kNone; at = flight.at(at).newer) {
    WEFT_DCHECK(flight.at(at).state == Record::State::lost);
    --lost;
  }
  WEFT_DCHECK(in_flight == 0 && lost == 0);
  uint32_t unacked = 0;
  for (const Message* m = tx.messages; m != nullptr; m = m->older) unacked += m->unacked;
  WEFT_DCHECK(unacked == of_messages);
  flight.paths.check_invariants();
}

void check_messages(Context& ctx, Peer& peer) {
  using State = Message::State;
  Sender& tx = peer.tx;
  uint32_t rnr = 0, awaiting = 0, responses = 0, queued = 0, begun = 0;
  const Message* newer = nullptr;
  for (const Message* m = tx.messages; m != nullptr; newer = m, m = m->older) {
    WEFT_DCHECK(m->state != State::free && m->peer == &peer && m->newer == newer);
    WEFT_DCHECK(m->cursor <= m->payload_length() && m->unacked <= kWindow);
    WEFT_DCHECK(!m->is_response() || m->qp == nullptr);
    WEFT_DCHECK(m->qp == nullptr || ctx.find_qp(m->qp->number) == m->qp);
    WEFT_DCHECK(m->state != State::queued || m->line.listed);
    WEFT_DCHECK((m->state != State::sent && m->state != State::rnr_wait) || !m->line.listed);
    WEFT_DCHECK(m->state != State::rnr_wait || (m->cursor == 0 && m->unacked == 0));
    WEFT_DCHECK(
        m->state != State::rnr_wait ||
        (peer.timer.armed() && peer.timer.deadline <= m->rnr.resume_at + Duration::from_us(1)));
    WEFT_DCHECK(m->state != State::cancelled || m->unacked > 0);
    rnr += m->state == State::rnr_wait;
    awaiting += m->expects_response();
    responses += m->is_response();
    queued += m->line.listed;
    begun += m->request.begun;
  }
  WEFT_DCHECK(rnr == tx.rnr_waiting && awaiting == tx.awaiting_response);
  WEFT_DCHECK(responses == peer.rx.responses && responses <= Receiver::kMostResponses);
  const SendQueues& q = tx.queues;
  uint32_t in_queues = 0;
  for (const MessageLine* line :
       {&q.urgent[0], &q.urgent[1], &q.small, &q.round_robin, &q.bulk, &q.later, &q.adds, &q.reads})
    in_queues += length_of(*line);
  WEFT_DCHECK(in_queues == queued);
  WEFT_DCHECK(q.reads_begun == begun && begun <= SendQueues::kMostReads);
  WEFT_DCHECK(q.reads.empty() || begun == SendQueues::kMostReads);
  WEFT_DCHECK(length_of(q.round_robin) == q.round_robin_count);
  WEFT_DCHECK(q.round_robin_count <= SendQueues::kMostTurns);
  WEFT_DCHECK(q.adding == nullptr ? q.adds.empty() : q.adding->ordered_add);
  WEFT_DCHECK(!q.order.first_is_in());
  for (const Message* m = q.later.front(); m != nullptr; m = m->line.next)
    WEFT_DCHECK(q.beyond_window(*m));
}

void check_sender(Context& ctx, Peer& peer) {
  const Sender& tx = peer.tx;
  WEFT_DCHECK(tx.una <= tx.next && tx.unacked() <= kWindow);
  WEFT_DCHECK(tx.flight != nullptr || tx.una == tx.next);
  WEFT_DCHECK(tx.epoch != 0 || tx.next == 0);
  // A stream begins when the incarnation of its receiver is known; until then hellos are sent.
  WEFT_DCHECK(tx.epoch == 0 || tx.incarnation() != 0);
  WEFT_DCHECK(tx.incarnation() != 0 || tx.queues.empty() || peer.active.listed ||
              (peer.timer.armed() && peer.timer.deadline <= tx.welcome.hello_at));
  WEFT_DCHECK(tx.rtt.smoothed.ps >= 0 && tx.rtt.variation.ps >= 0);
  if (tx.flight != nullptr) check_flight(ctx, peer);
  check_messages(ctx, peer);
  // What is outstanding has a timer, and what can be sent is listed or waits for it.
  WEFT_DCHECK(tx.una == tx.next || peer.timer.armed());
  WEFT_DCHECK(tx.awaiting_response == 0 || peer.timer.armed() || peer.active.listed);
}

void check_receiver(const Peer& peer) {
  const Receiver& rx = peer.rx;
  WEFT_DCHECK(rx.window.next() <= rx.window.end());
  WEFT_DCHECK(rx.window.end() - rx.window.next() <= kWindow);
  WEFT_DCHECK(rx.window.place_of(rx.window.next()) == ReceiveWindow::Place::fresh);
  WEFT_DCHECK(rx.window.holes() == (rx.window.beyond_gap() != 0));
  WEFT_DCHECK(!rx.window.holes() ||
              rx.window.place_of(rx.window.end() - 1) == ReceiveWindow::Place::duplicate);
  WEFT_DCHECK(rx.window.beyond_gap() <= rx.window.end() - rx.window.next());
  WEFT_DCHECK(rx.assemblies <= AssemblyTable::kMostPerPeer);
  WEFT_DCHECK(rx.known || (rx.window.end() == 0 && rx.assemblies == 0 && !rx.ack_pending));
  WEFT_DCHECK(rx.known || (rx.order == nullptr && rx.credit_index == Receiver::kNoCredit));
  WEFT_DCHECK(!rx.ack_pending || peer.ack_link.listed ||
              (!rx.ack_at.is_never() && peer.timer.armed() &&
               peer.timer.deadline <= rx.ack_at + Duration::from_us(1)));
  if (rx.order == nullptr) return;
  WEFT_DCHECK(rx.order->bound.includes(rx.order->done));
  WEFT_DCHECK(!rx.order->done.first_is_in());
}

void check_queue_pairs(Engine& engine, uint32_t with_qp) {
  uint32_t sends = 0, bound = 0;
  engine.visit_qps(0, SIZE_MAX, [&](const QueuePair& qp) {
    WEFT_DCHECK(engine.find_qp(qp.number) == &qp && qp.number.value >> 16 == engine.qpn_prefix);
    sends += qp.sends.used();
    bound += qp.receives.slots.used() - qp.receives.size();
    WEFT_DCHECK(qp.receives.slots.used() >= qp.receives.size());
    WEFT_DCHECK(qp.rnr_queue != nullptr || (!qp.ready_link.listed && !qp.reserving_link.listed));
    if (qp.rnr_queue == nullptr) return;
    WEFT_DCHECK((qp.rnr_queue->reservations() == 0) || qp.reserving_link.listed);
    WEFT_DCHECK(engine.rnr.expires_at <= qp.rnr_queue->next_expiry());
    qp.rnr_queue->check_invariants();
  });
  WEFT_DCHECK(sends == with_qp);
  engine.assemblies.for_each([&](const Assembly& a) {
    const uint32_t owner = AssemblyTable::peer_of(a.name);
    WEFT_DCHECK(owner < engine.peers.size() && engine.peers[owner].rx.assemblies > 0);
    if (a.receive == Slots::kNone || a.qp.value == 0) return;
    WEFT_DCHECK(engine.find_qp(a.qp) != nullptr && bound > 0);
    --bound;
  });
  WEFT_DCHECK(bound == 0);
}

}  // namespace

void check_invariants(Context& ctx, Peer& peer) noexcept {
  WEFT_DCHECK(peer.timer.owner == &peer);
  WEFT_DCHECK(!peer.rx.known || peer.introduced.incarnation != 0);
  WEFT_DCHECK(!peer.timer.armed() || ctx.next_deadline() <= peer.timer.deadline);
  check_sender(ctx, peer);
  check_receiver(peer);
}

void check_invariants(Engine& engine) noexcept {
  uint32_t flights = 0, assemblies = 0, ordered = 0, with_qp = 0;
  for (size_t i = 0; i < engine.peers.size(); ++i) {
    Peer& peer = engine.peers[i];
    WEFT_DCHECK(peer.index == i && engine.peers.find(peer.address, peer.qpn_prefix) == &peer);
    check_invariants(engine, peer);
    flights += peer.tx.flight != nullptr;
    assemblies += peer.rx.assemblies;
    ordered += peer.rx.order != nullptr;
    for (const Message* m = peer.tx.messages; m != nullptr; m = m->older)
      with_qp += m->qp != nullptr;
    const uint32_t credit = peer.rx.credit_index;
    WEFT_DCHECK(credit == Receiver::kNoCredit ||
                (credit < engine.credit.peers.size() && engine.credit.peers[credit] == i));
    WEFT_DCHECK(peer.rx.credit_granted ==
                (credit == Receiver::kNoCredit ? 0 : engine.credit.pacer.granted(credit)));
  }
  WEFT_DCHECK(flights == engine.flights_in_use);
  WEFT_DCHECK(assemblies == engine.assemblies.size());
  WEFT_DCHECK(engine.assemblies.size() <= AssemblyTable::kMost);
  WEFT_DCHECK(engine.assemblies.size() * 2 <= engine.assemblies.capacity());
  WEFT_DCHECK(ordered == engine.ordered_streams);
  WEFT_DCHECK(engine.replies.size() <= ReceiveContext::kMostReplies);
  for (const auto& [alias, index] : engine.aliases) {
    WEFT_DCHECK(index < engine.peers.size() && engine.peers[index].rails != nullptr);
    WEFT_DCHECK(engine.peers[index].qpn_prefix == alias.qpn_prefix && alias.incarnation != 0);
  }
  WEFT_DCHECK(engine.uses_rails || engine.aliases.empty());
  check_queue_pairs(engine, with_qp);
}

}  // namespace weft::srd
