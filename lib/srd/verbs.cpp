// SPDX-License-Identifier: BSD-3-Clause
// Life of an SRD queue pair. It needs no connection: the walk through the states is there because
// verbs programs make it, and may name a default destination on the way.
#include <algorithm>

#include "lib/base/undo.hpp"
#include "lib/srd/engine.hpp"
#include "lib/transport/srd_qp_states.hpp"

namespace weft::srd {

Result<QueuePair*> Engine::create_qp(const QpConfig& config, QpNum wanted) {
  if (config.type != QpType::srd)
    return Error{Code::not_supported,
                 "provider srd has SRD queue pairs only: set QueuePairOptions::type to "
                 "QpType::srd, or open a roce device"};
  if (const Result<void> ok = check(config, config_.limits); !ok) return ok.error();
  if (qps_.size() >= std::min(config_.limits.max_qp, 32768u))
    return Error{Code::no_memory, "the device has all its queue pairs in use"};
  QpNum number = wanted;
  while (number.value == 0 || find_qp(number) != nullptr)  //= threat:A03
    number = QpNum{block_ << 16 | (1 + number_order_(numbers_drawn_++ % number_order_.count()))};
  std::unique_ptr<QueuePair> qp(new QueuePair);
  qp->number = number;
  qp->domain = config.domain;
  qp->send_cq = config.send_cq;
  qp->recv_cq = config.recv_cq;
  qp->max_inline = config.max_inline;
  qp->signal_all = config.signal_all;
  qp->sends.create(config.max_send_wr, std::max(1u, config.max_send_sge), config.max_inline);
  qp->receives.create(std::max(1u, config.max_recv_wr), std::max(1u, config.max_recv_sge));
  messages_.reserve(config.max_send_wr);
  QueuePair* const raw = qp.get();
  base::Undo undo([&] {
    messages_.unreserve(raw->sends.count());
    by_number_.erase(number);
  });
  by_number_.insert(number, raw);
  auto& slot = qps_[number.value];
  undo.forget();
  slot = std::move(qp);
  return raw;
}

void Engine::complete_flushed(QueuePair& qp, CompletionQueue& cq, uint64_t id,
                              WorkType type) noexcept {
  complete(qp, cq, {.id = id, .qp = qp.number, .status = Status::flushed, .type = type}, false);
}

// Takes everything off the queue pair. Requests that are in progress go on without it, so that
// their peer is not left with half a message; they complete nowhere.
void Engine::reset_qp(QueuePair& qp, bool flush) noexcept {
  for (const std::unique_ptr<Peer>& peer : peers_) {
    for (Message* m = peer->tx.all; m != nullptr;) {
      Message* const next = m->next_all;
      if (m->qp == &qp) {
        if (flush) complete_request(*m, Status::flushed);
        orphan(*m);
        cancel(*m);
      }
      m = next;
    }
  }
  // What is half here stays known, so that its other half is refused: it could not arrive whole any
  // more. Its sender then has it forgotten.
  assemblies_.for_each([&](Assembly& a) {
    if (a.qp != qp.number) return;
    give_back(a);
    a.qp = QpNum{};
  });
  drop_held(qp, flush);
  end_line(qp);
  while (!qp.receives.empty()) {
    const uint32_t slot = qp.receives.pop();
    if (flush) complete_flushed(qp, *qp.recv_cq, qp.receives[slot].id, WorkType::recv);
    qp.receives.slots.give(slot);
  }
}

void Engine::destroy_qp(QueuePair* qp) noexcept {
  reset_qp(*qp, false);
  messages_.unreserve(qp->sends.count());
  port_.forget(qp->number);
  by_number_.erase(qp->number);
  qps_.erase(qp->number.value);
}

Result<void> Engine::modify_qp(QueuePair& qp, const QueuePairAttributes& change) {
  const QpState to = change.state.value_or(qp.state);
  if (const Result<void> ok = check_srd_transition(qp.state, change, capabilities_.max_mtu); !ok)
    return ok;
  merge(qp.attributes, change);
  if (change.access) qp.access = *change.access;
  if (change.rnr_retry) qp.rnr_retry = *change.rnr_retry;
  if (to == QpState::reset) {
    reset_qp(qp, false);
    qp.attributes = {};
    qp.access = Access::none;
  }
  const bool to_error = to == QpState::err && qp.state != QpState::err;
  qp.state = to;
  if (to_error) reset_qp(qp, true);
  return {};
}

}  // namespace weft::srd
