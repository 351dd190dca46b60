// SPDX-License-Identifier: BSD-3-Clause
// Ordered SENDs (order.hpp): the sender numbers them and starts none beyond the window, the
// receiver holds their completions back until their turn.
//
// A message may take a receive only if each lower number that has none yet still finds one;
// otherwise later messages could hold all receives, and wait for an earlier one for ever.
#include "lib/srd/engine.hpp"

namespace weft::srd {

namespace {
constexpr uint32_t kMostOrdered = 4096;  // streams with ordered SENDs, each with 5 KiB at most
}  // namespace

void Engine::number(Message& m) noexcept {
  if (m.ordered) m.order = m.peer->tx.next_order++;
}

// The message has ended, well or not.
void Engine::end_order(Message& m) noexcept {
  Sender& tx = m.peer->tx;
  if (!m.ordered || !tx.order.within(m.order)) return;
  tx.order.add(m.order);
  while (tx.order.first_is_in()) tx.order.advance();
  start_later(tx);
}

// Those that have come into the window go on: they are sent, or the receiver is told that they
// never will be.
void Engine::start_later(Sender& tx) noexcept {
  while (!tx.later.empty() && tx.order.within(tx.later.front()->order)) {
    Message& m = tx.later.pop();
    if (m.state == Message::State::aborting)
      tx.quick(m).push(m);
    else
      line_up(m);
    activate(*m.peer);
  }
}

// Null: too many streams have them, or there is no memory.
OrderedReceives* Engine::ordered_receives(Receiver& rx) noexcept {
  if (rx.order == nullptr && ordered_streams_ < kMostOrdered) {
    rx.order.reset(new (std::nothrow) OrderedReceives);
    ordered_streams_ += rx.order != nullptr;
  }
  return rx.order.get();
}

bool Engine::may_bind(Peer& peer, QueuePair& qp, const wire::SrdPacket& p,
                      wire::SrdReason& why) noexcept {
  const uint32_t receives = receives_for(peer, qp);
  if (receives == 0) return why = stand_in_line(peer, qp), false;
  if (!p.has(wire::srd_flag::kOrdered)) return true;
  const OrderedReceives* const order = ordered_receives(peer.rx);
  why = wire::SrdReason::busy;
  if (order == nullptr) return false;
  why = wire::SrdReason::invalid;
  if (!order->bound.within(p.order) || order->bound.has(p.order)) return false;
  if (receives > order->bound.missing_before(p.order)) return true;
  why = stand_in_line(peer, qp);
  return false;
}

void Engine::hold(Peer& peer, uint32_t number, const Completion& completion,
                  bool solicited) noexcept {
  OrderedReceives& order = *peer.rx.order;
  order.held(number) = {completion, solicited, false};
  order.done.add(number);
  release_held(peer);
}

// An ordered message is forgotten: to come again, or never.
Engine::Outcome Engine::skip(Peer& peer, const wire::SrdPacket& abort) noexcept {
  if (!abort.has(wire::srd_flag::kOrdered)) return Outcome::executed;
  OrderedReceives* const order = ordered_receives(peer.rx);
  if (order == nullptr) return Outcome::dropped;
  if (!order->bound.within(abort.order) || order->done.has(abort.order)) return Outcome::executed;
  if (abort.detail == 0) {
    order->bound.remove(abort.order);
    return Outcome::executed;
  }
  order->bound.add(abort.order);
  order->held(abort.order) = {.completion = {}, .none = true};
  order->done.add(abort.order);
  release_held(peer);
  return Outcome::executed;
}

void Engine::release_held(Peer& peer) noexcept {
  OrderedReceives& order = *peer.rx.order;
  while (order.done.first_is_in()) {
    const OrderedReceives::Held& held = order.held(order.done.next());
    QueuePair* const qp = held.none ? nullptr : find_qp(held.completion.qp);
    if (qp != nullptr) complete(*qp, *qp->recv_cq, held.completion, held.solicited);
    order.done.advance();
    order.bound.advance();
  }
}

// The queue pair goes: its completions that are held back go with it, or say that they were
// flushed.
void Engine::drop_held(QueuePair& qp, bool flush) noexcept {
  if (ordered_streams_ == 0) return;
  for (const std::unique_ptr<Peer>& peer : peers_) {
    OrderedReceives* const order = peer->rx.order.get();
    for (uint32_t i = 0; order != nullptr && i < kOrderWindow; ++i) {
      const uint32_t number = order->done.next() + i;
      OrderedReceives::Held& held = order->held(number);
      if (!order->done.has(number) || held.none || held.completion.qp != qp.number) continue;
      held.none = true;
      if (flush) complete_flushed(qp, *qp.recv_cq, held.completion.id, WorkType::recv);
    }
  }
}

// The stream is over: what came before a missing one is told all the same, in order.
void Engine::end_order(Receiver& rx) noexcept {
  if (rx.order == nullptr) return;
  OrderedReceives& order = *rx.order;
  for (uint32_t i = 0; i < kOrderWindow; ++i, order.done.advance()) {
    if (!order.done.first_is_in()) continue;
    const OrderedReceives::Held& held = order.held(order.done.next());
    QueuePair* const qp = held.none ? nullptr : find_qp(held.completion.qp);
    if (qp != nullptr) complete(*qp, *qp->recv_cq, held.completion, held.solicited);
  }
  rx.order.reset();
  --ordered_streams_;
}

}  // namespace weft::srd
