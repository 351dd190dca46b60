// SPDX-License-Identifier: BSD-3-Clause
// Ordered SENDs (state/order.hpp): the receiver holds completions back until those of all lower
// numbers are delivered.
//
// A message may take a receive only if each lower number that has none yet still finds one;
// otherwise later messages could take all receives, and wait for an earlier one forever.
#include <new>

#include "lib/srd/receive/receive.hpp"

namespace weft::srd {

namespace {

constexpr uint32_t kMostOrdered = 4096;  // streams with ordered SENDs, each with 5 KiB at most

// Null: too many streams have them, or there is no memory.
OrderedReceives* ordered_receives(ReceiveContext& ctx, Receiver& rx) noexcept {
  if (rx.order == nullptr && ctx.ordered_streams < kMostOrdered) {
    rx.order.reset(new (std::nothrow) OrderedReceives);
    ctx.ordered_streams += rx.order != nullptr;
  }
  return rx.order.get();
}

void deliver_held(ReceiveContext& ctx, const OrderedReceives::Held& held) noexcept {
  QueuePair* const qp = held.none ? nullptr : ctx.find_qp(held.completion.qp);
  if (qp != nullptr) ctx.complete(*qp, *qp->recv_cq, held.completion, held.solicited);
}

void release_held_completions(ReceiveContext& ctx, Peer& peer) noexcept {
  OrderedReceives& order = *peer.rx.order;
  WEFT_DCHECK(order.bound.includes(order.done));
  while (order.done.first_is_in()) {
    deliver_held(ctx, order.held(order.done.next()));
    order.done.advance();
    order.bound.advance();
  }
}

}  // namespace

bool may_bind(ReceiveContext& ctx, Peer& peer, QueuePair& qp, const wire::SrdPacket& p,
              wire::SrdReason& why) noexcept {
  const uint32_t receives = available_receives(peer, qp);
  if (receives == 0) return why = join_rnr_queue(peer, qp), false;
  if (!p.has(wire::srd_flag::kOrdered)) return true;
  const OrderedReceives* const order = ordered_receives(ctx, peer.rx);
  why = wire::SrdReason::busy;
  if (order == nullptr) return false;
  why = wire::SrdReason::invalid;
  if (!order->bound.within(p.order) || order->bound.has(p.order)) return false;
  if (receives > order->bound.missing_before(p.order)) return true;
  why = join_rnr_queue(peer, qp);
  return false;
}

void hold_completion(ReceiveContext& ctx, Peer& peer, uint32_t number, const Completion& completion,
                     bool solicited) noexcept {
  OrderedReceives& order = *peer.rx.order;
  // Not by our protocol: a peer that aborted this number, then sent the rest of the message.
  if (!order.done.within(number) || order.done.has(number))
    return deliver_held(ctx, {completion, solicited, false});
  order.held(number) = {completion, solicited, false};
  order.bound.add(number);
  order.done.add(number);
  release_held_completions(ctx, peer);
}

Outcome skip_order(ReceiveContext& ctx, Peer& peer, const wire::SrdPacket& abort) noexcept {
  if (!abort.has(wire::srd_flag::kOrdered)) return Outcome::executed;
  OrderedReceives* const order = ordered_receives(ctx, peer.rx);
  if (order == nullptr) return Outcome::dropped;
  if (!order->bound.within(abort.order) || order->done.has(abort.order)) return Outcome::executed;
  if (abort.detail == 0) {
    order->bound.remove(abort.order);
    return Outcome::executed;
  }
  order->bound.add(abort.order);
  order->held(abort.order) = {.completion = {}, .none = true};
  order->done.add(abort.order);
  release_held_completions(ctx, peer);
  return Outcome::executed;
}

void drop_held_completions(ReceiveContext& ctx, QueuePair& qp, bool flush) noexcept {
  if (ctx.ordered_streams == 0) return;
  for (const std::unique_ptr<Peer>& peer : ctx.peers) {
    OrderedReceives* const order = peer->rx.order.get();
    for (uint32_t i = 0; order != nullptr && i < kOrderWindow; ++i) {
      const uint32_t number = order->done.next() + i;
      OrderedReceives::Held& held = order->held(number);
      if (!order->done.has(number) || held.none || held.completion.qp != qp.number) continue;
      held.none = true;
      if (flush) ctx.complete_flushed(qp, *qp.recv_cq, held.completion.id, WorkType::recv);
    }
  }
}

// The stream is over: what waits for a missing number is delivered all the same, in order.
void end_ordered_receives(ReceiveContext& ctx, Receiver& rx) noexcept {
  if (rx.order == nullptr) return;
  OrderedReceives& order = *rx.order;
  for (uint32_t i = 0; i < kOrderWindow; ++i, order.done.advance()) {
    if (order.done.first_is_in()) deliver_held(ctx, order.held(order.done.next()));
  }
  WEFT_DCHECK(order.done.empty() && ctx.ordered_streams > 0);
  rx.order.reset();
  --ctx.ordered_streams;
}

}  // namespace weft::srd
