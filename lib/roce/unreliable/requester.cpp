// SPDX-License-Identifier: BSD-3-Clause
// See unreliable.hpp. There is no window, as nothing is acknowledged: backpressure comes from the
// port alone, and from the rate limit.
#include "lib/roce/message/local_work.hpp"
#include "lib/roce/message/outcome.hpp"
#include "lib/roce/message/pacing.hpp"
#include "lib/roce/message/send.hpp"
#include "lib/roce/unreliable/unreliable.hpp"

namespace weft::roce {

namespace {

// Sends the next packet of the entry at the cursor. False: a local error.
bool send_next(EngineState& engine, QueuePair& qp, const SendEntry& entry, FrameBuilder& out,
               Instant now) noexcept {
  if (qp.type == QpType::ud) return ud::send_datagram(engine, qp, out, now);
  if (!send_message_packet(engine, qp, entry, {.service = wire::OpClass::uc}, out)) return false;
  if (qp.req.paced) charge_limit(engine, qp, out, qp.path, {}, now);
  return true;
}

// The oldest request could not be sent: it fails, all later ones are flushed. //= roce:C-STATE-65
void enter_sqe(EngineState& engine, QueuePair& qp) noexcept {
  WEFT_DCHECK(!qp.sq.empty() && qp.sq[qp.sq.head()].failed);
  Status status = local_failure(qp.sq[qp.sq.head()]);
  while (!qp.sq.empty() && qp.state != QpState::err) {
    const SendEntry& entry = qp.sq[qp.sq.head()];
    qp.sq.pop();  // first: if its CQ overruns, the rest is flushed in there
    complete_request(engine, qp, entry, status, 0);
    status = Status::flushed;
  }
  if (qp.state == QpState::err) return;
  Requester& req = qp.req;
  req.una = req.next = req.sent_end = req.post_end;
  req.next_index = qp.sq.tail();
  qp.state = QpState::sqe;
}

}  // namespace

Served send_unreliable(EngineState& engine, QueuePair& qp, FrameBuilder& out, uint32_t quantum,
                       Instant now) noexcept {
  Requester& req = qp.req;
  if (!qp.can_request()) return Served::idle;
  WEFT_DCHECK(!qp.reliable());
  for (uint32_t sent = 0; req.next_index != qp.sq.tail(); ++sent) {
    if (!out.has_room() || sent == quantum) return Served::more;
    SendEntry& entry = qp.sq[req.next_index];
    if (entry.failed) break;
    if (qp.state == QpState::sqd && req.next == entry.first_psn) break;  //= roce:C-STATE-64
    const bool local = entry.local();
    if (!local && !may_leave(qp, now)) {
      wait_to_leave(engine, qp, now);
      break;
    }
    entry.failed = local ? !execute_local(engine, qp) : !send_next(engine, qp, entry, out, now);
    engine.complete_after_transmit(qp);
    if (entry.failed) break;
    if (local) continue;
    req.sent_end = req.next;
    WEFT_DCHECK(req.next <= entry.end_psn());
    if (req.next == entry.end_psn()) ++req.next_index;
  }
  return Served::idle;
}

void complete_transmitted(EngineState& engine, QueuePair& qp) noexcept {
  Requester& req = qp.req;
  while (qp.sq.head() != req.next_index) {
    const SendEntry& entry = qp.sq[qp.sq.head()];
    WEFT_DCHECK(entry.end_psn() <= req.next && !entry.failed);
    req.una = entry.end_psn();
    qp.sq.pop();
    complete_request(engine, qp, entry, Status::success, 0);
    if (qp.state == QpState::err) return;  // its CQ overran
  }
  if (!qp.sq.empty() && qp.sq[qp.sq.head()].failed) return enter_sqe(engine, qp);
  if (req.drain_event && qp.drained()) {
    req.drain_event = false;
    engine.raise(EventType::sq_drained, qp.number);
  }
}

}  // namespace weft::roce
