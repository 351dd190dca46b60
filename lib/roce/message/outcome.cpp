// SPDX-License-Identifier: BSD-3-Clause
// Every posted request completes exactly once: the first that fails with its own status, the later
// ones flushed (//= roce:C-STATE-62), and a failure completes even if the request is unsignaled
// (//= roce:C-STATE-63).
#include "lib/roce/message/outcome.hpp"

#include "lib/roce/state/engine_state.hpp"
#include "lib/transport/verbs_common.hpp"

namespace weft::roce {

namespace {

// Pushes a completion; if its queue has overrun, the queue pair goes to ERR.
void complete(EngineState& engine, QueuePair& qp, CompletionQueue& cq, const Completion& completion,
              bool solicited) noexcept {
  if (engine.deliver(qp.number, cq, completion, solicited) || qp.state == QpState::err) return;
  enter_error(engine, qp);
  engine.raise(EventType::qp_fatal, qp.number);
}

}  // namespace

void deliver_request(EngineState& engine, QueuePair& qp, const SendEntry& entry, Status status,
                     uint16_t syndrome) noexcept {
  WEFT_DCHECK(status != Status::success || entry.signaled);
  Completion c;
  c.id = entry.id;
  c.byte_count = entry.length;
  c.qp = qp.number;
  c.status = status;
  c.type = work_type(entry.opcode);
  c.vendor_error = syndrome;
  complete(engine, qp, *qp.send_cq, c, false);
}

void complete_receive(EngineState& engine, QueuePair& qp, Status status, uint32_t bytes,
                      const wire::Packet* packet) noexcept {
  WEFT_DCHECK(!qp.rq.empty() && qp.recv_cq != nullptr);
  Completion c;
  c.id = qp.rq[qp.rq.head()].id;
  c.byte_count = bytes;
  c.qp = qp.number;
  c.status = status;
  c.type = WorkType::recv;
  bool solicited = false;
  if (packet != nullptr) {
    if (packet->info->imm) {
      c.type = WorkType::recv_with_imm;
      c.flags = CompletionFlags::with_imm;
      c.imm_or_key = packet->imm_or_key();
    } else if (packet->info->ieth) {
      c.flags = CompletionFlags::with_invalidate;
      c.imm_or_key = packet->imm_or_key();
    }
    if (packet->info->operation == wire::Operation::write)
      c.flags = c.flags | CompletionFlags::rdma_write;
    if (packet->info->deth) {
      c.source_qp = QpNum{packet->deth().source_qpn};
      c.flags = c.flags | CompletionFlags::grh;
    }
    solicited = packet->solicited;
  }
  qp.rq.pop();
  complete(engine, qp, *qp.recv_cq, c, solicited);
}

static transport::Incident failure_of(const QueuePair& qp, Status status,
                                      uint16_t syndrome) noexcept {
  transport::Incident failure{
      .status = status, .qp = qp.number, .peer = qp.path.destination, .peer_qp = qp.peer};
  if (status == Status::retry_exceeded) {
    failure.sign = transport::sign_of(syndrome);
    if (failure.sign != transport::PeerSign::none) return failure;
    failure.retries = qp.attributes.retry_count.value_or(0);
    failure.waited = qp.retry_delay;
  } else if (status == Status::rnr_retry_exceeded) {
    failure.retries = qp.attributes.rnr_retry.value_or(0);
  }
  return failure;
}

void fail_request(EngineState& engine, QueuePair& qp, Status status, uint16_t syndrome) noexcept {
  WEFT_DCHECK(status != Status::success);
  if (!qp.sq.empty()) {
    const SendEntry& entry = qp.sq[qp.sq.head()];
    qp.sq.pop();
    complete_request(engine, qp, entry, status, syndrome);
    engine.note_failure(failure_of(qp, status, syndrome));
  }
  enter_error(engine, qp);
}

void fail_receive(EngineState& engine, QueuePair& qp) noexcept {
  WEFT_DCHECK(!qp.reliable());
  complete_receive(engine, qp, Status::local_protection_error, 0, nullptr);
  enter_error(engine, qp);
}

void drop_replies(QueuePair& qp) noexcept {
  qp.res.reply_head = qp.res.reply_tail;
  for (uint32_t i = 0; i < qp.res.resource_count; ++i) qp.res.resources[i] = {};
}

void enter_error(EngineState& engine, QueuePair& qp, Replies replies) noexcept {
  if (qp.state == QpState::err) return;
  qp.state = QpState::err;
  Requester& req = qp.req;
  if (qp.destination != nullptr) {
    WEFT_DCHECK(req.in_flight <= qp.destination->window.in_flight);
    qp.destination->window.forget(req.in_flight);
    engine.wake_waiting(*qp.destination);
  }
  req.in_flight = 0;
  req.retry_at = req.rnr_until = Instant::never();
  req.reads_tail = req.reads_head;
  for (; !qp.sq.empty(); qp.sq.pop())
    complete_request(engine, qp, qp.sq[qp.sq.head()], Status::flushed, 0);
  while (!qp.rq.empty()) complete_receive(engine, qp, Status::flushed, 0, nullptr);
  if (req.scoreboard != nullptr) (void)req.scoreboard->take(req.una, req.next);
  req.scoreboard = nullptr;
  stop_probes(req);
  req.una = req.next = req.sent_end = req.post_end;
  req.next_index = qp.sq.tail();
  qp.res.message = Responder::Message::none;
  engine.early_packets().clear(qp.res.gap.early);
  qp.res.holes = nullptr;
  if (replies == Replies::drop) drop_replies(qp);
  qp.res.ack_queued = false;
  WEFT_DCHECK(qp.sq.empty() && qp.rq.empty() && qp.reads_in_flight() == 0);
  //= roce:C-STATE-68
  if (qp.shares()) engine.raise(EventType::last_wqe_reached, qp.number);
}

}  // namespace weft::roce
