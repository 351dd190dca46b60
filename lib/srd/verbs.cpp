// SPDX-License-Identifier: BSD-3-Clause
// Life of an SRD queue pair. It needs no connection: it has the states of verbs for the programs
// that walk through them, and may be given a default destination.
#include <algorithm>

#include "lib/base/check.hpp"
#include "lib/base/undo.hpp"
#include "lib/srd/engine.hpp"
#include "lib/transport/srd_qp_states.hpp"

namespace weft::srd {

namespace {

// Takes all requests and receives off the queue pair. Requests in progress go on without it, so
// that their peer is not left with half a message; they produce no completion.
void reset_qp(ReceiveContext& ctx, QueuePair& qp, bool flush) noexcept {
  for (const std::unique_ptr<Peer>& peer : ctx.peers) {
    for (Message* m = peer->tx.messages; m != nullptr;) {
      Message* const older = m->older;
      if (m->qp == &qp) {
        if (flush) complete_request(ctx, *m, Status::flushed);
        detach_message(ctx, *m);
        cancel_message(ctx, *m);
      }
      m = older;
    }
  }
  // Incomplete messages stay known, so that their other packets are refused: they could not arrive
  // whole any more. Their senders abort them.
  ctx.assemblies.for_each([&](Assembly& a) {
    if (a.qp != qp.number) return;
    return_receive(ctx, a);
    a.qp = QpNum{};
  });
  drop_held_completions(ctx, qp, flush);
  end_rnr_queue(ctx, qp);
  while (!qp.receives.empty()) {
    const uint32_t slot = qp.receives.pop();
    if (flush) ctx.complete_flushed(qp, *qp.recv_cq, qp.receives[slot].id, WorkType::recv);
    qp.receives.slots.give(slot);
  }
  WEFT_DCHECK(qp.sends.used() == 0 && qp.receives.slots.used() == 0);
}

}  // namespace

Result<QueuePair*> Engine::create_qp(const QpConfig& wants, QpNum wanted) {
  if (wants.type != QpType::srd)
    return Error{Code::not_supported,
                 "provider srd has SRD queue pairs only: set QueuePairOptions::type to "
                 "QpType::srd, or open a roce device"};
  if (const Result<void> ok = check(wants, config.limits); !ok) return ok.error();
  if (qps_.size() >= std::min(config.limits.max_qp, 32768u))
    return Error{Code::no_memory, "the device has all its queue pairs in use"};
  QpNum number = wanted;
  while (number.value == 0 || find_qp(number) != nullptr)  //= threat:A03
    number = QpNum{qpn_prefix << 16 | (1 + qp_numbers(qp_numbers_drawn++ % qp_numbers.count()))};
  std::unique_ptr<QueuePair> qp(new QueuePair);
  qp->number = number;
  qp->domain = wants.domain;
  qp->send_cq = wants.send_cq;
  qp->recv_cq = wants.recv_cq;
  qp->max_inline = wants.max_inline;
  qp->signal_all = wants.signal_all;
  qp->sends.create(wants.max_send_wr, std::max(1u, wants.max_send_sge), wants.max_inline);
  qp->receives.create(wants.max_recv_wr, std::max(1u, wants.max_recv_sge));
  messages.reserve(wants.max_send_wr);
  QueuePair* const raw = qp.get();
  base::Undo undo([&] {
    messages.unreserve(raw->sends.count());
    queue_pairs.erase(number);
  });
  queue_pairs.insert(number, raw);
  auto& slot = qps_[number.value];
  undo.forget();
  slot = std::move(qp);
  return raw;
}

void Engine::destroy_qp(QueuePair* qp) noexcept {
  reset_qp(*this, *qp, false);
  messages.unreserve(qp->sends.count());
  port_.forget(qp->number);
  queue_pairs.erase(qp->number);
  qps_.erase(qp->number.value);
}

Result<void> Engine::modify_qp(QueuePair& qp, const QueuePairAttributes& change) {
  const QpState to = change.state.value_or(qp.state);
  if (const Result<void> ok = check_srd_transition(qp.state, change, capabilities_.max_mtu); !ok)
    return ok;
  merge(qp.attributes, change);
  if (change.qkey) qp.queue_key = *change.qkey;
  if (change.access) qp.access = *change.access;
  if (change.rnr_retry) qp.rnr_retry = *change.rnr_retry;
  if (to == QpState::reset) {
    reset_qp(*this, qp, false);
    qp.attributes = {};
    qp.access = Access::none;
    qp.queue_key = 0;
  }
  const bool to_error = to == QpState::err && qp.state != QpState::err;
  qp.state = to;
  if (to_error) reset_qp(*this, qp, true);
  return {};
}

}  // namespace weft::srd
