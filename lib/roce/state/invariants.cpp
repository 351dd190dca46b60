// SPDX-License-Identifier: BSD-3-Clause
// See invariants.hpp.
#include "lib/roce/state/invariants.hpp"

#ifndef NDEBUG

#include "lib/base/check.hpp"
#include "lib/roce/state/destination.hpp"

namespace weft::roce {

namespace {

// Entries of the send queue are contiguous in PSNs, and the cursor is at `next`.
void check_send_queue(const QueuePair& qp) noexcept {
  const Requester& req = qp.req;
  const uint32_t cursor = req.next_index - qp.sq.head();
  WEFT_DCHECK(qp.sq.size() <= qp.sq.capacity() && cursor <= qp.sq.size());
  if (qp.sq.empty()) {
    WEFT_DCHECK(req.una == req.post_end);
    return;
  }
  WEFT_DCHECK(qp.sq[qp.sq.head()].first_psn <= req.una);
  WEFT_DCHECK(qp.sq[qp.sq.tail() - 1].end_psn() == req.post_end);
  uint64_t psn = qp.sq[qp.sq.head()].first_psn;
  for (uint32_t i = qp.sq.head(); i != qp.sq.tail(); ++i) {
    const SendEntry& entry = qp.sq[i];
    WEFT_DCHECK(entry.first_psn == psn);
    WEFT_DCHECK(entry.local() == (entry.packets == 0) && (!entry.done || entry.local()));
    psn = entry.end_psn();
  }
  if (cursor == qp.sq.size()) {
    WEFT_DCHECK(req.next == req.post_end);
  } else {
    const SendEntry& entry = qp.sq[req.next_index];
    WEFT_DCHECK(entry.first_psn <= req.next && req.next <= entry.end_psn());
  }
}

// The bytes that PSNs [una, next) take of the window.
uint64_t bytes_in_flight(const QueuePair& qp) noexcept {
  const Requester& req = qp.req;
  uint64_t bytes = 0;
  for (uint32_t i = qp.sq.head(); i != qp.sq.tail() && qp.sq[i].first_psn < req.next; ++i) {
    const SendEntry& entry = qp.sq[i];
    const uint64_t from = std::max(entry.first_psn, req.una);
    const uint64_t end = std::min(entry.end_psn(), req.next);
    const uint64_t payload = entry.packets == 1 ? entry.length : qp.mtu();
    if (from >= end) continue;
    uint64_t held = 0;
    for (uint64_t psn = from; psn != end && req.scoreboard != nullptr; ++psn)
      held += psn - req.una < req.scoreboard->window() && req.scoreboard->held(psn);
    bytes += (end - from - held) * (payload + qp.destination->packet_overhead);
  }
  return bytes;
}

void check_reads(const QueuePair& qp) noexcept {
  const Requester& req = qp.req;
  WEFT_DCHECK(qp.reads_in_flight() <= (req.reads ? req.reads_mask + 1 : 0));
  WEFT_DCHECK((req.read_chunk & (req.read_chunk - 1)) == 0 && req.read_chunk != 0);
  uint64_t before = req.una;
  for (uint32_t i = req.reads_head; i != req.reads_tail; ++i) {
    const uint64_t end = req.reads[i & req.reads_mask];
    WEFT_DCHECK(before < end && end <= req.next);
    before = end;
  }
}

void check_marks(const QueuePair& qp) noexcept {
  const Requester& req = qp.req;
  if (qp.selective == nullptr) return WEFT_DCHECK(req.scoreboard == nullptr);
  const Scoreboard& board = qp.selective->scoreboard;
  WEFT_DCHECK(board.empty() == (req.scoreboard == nullptr));
  WEFT_DCHECK(req.una != req.next || board.empty());
}

void check_retries(const QueuePair& qp) noexcept {
  const Requester& req = qp.req;
  WEFT_DCHECK(req.retries_left <= qp.attributes.retry_count.value_or(0));
  WEFT_DCHECK(req.rnr_left <= qp.attributes.rnr_retry.value_or(0));
  WEFT_DCHECK(req.rnr_until.is_never() || req.una == req.next);
  WEFT_DCHECK(req.retry_at.is_never() || req.una != req.next);
  WEFT_DCHECK(req.retry_at.is_never() || req.rnr_until.is_never());
  const Instant deadline = std::min({req.retry_at, req.rnr_until, qp.probe_at()});
  WEFT_DCHECK(deadline.is_never() || (qp.timer.armed() && qp.timer.deadline <= deadline));
}

// Queued responses are those of reply_order, each once.
void check_replies(const Responder& res) noexcept {
  const uint32_t queued = res.reply_tail - res.reply_head;
  WEFT_DCHECK(queued <= res.resource_count);
  WEFT_DCHECK(res.resource_count == 0 || res.resource_tail < res.resource_count);
  uint32_t marked = 0;
  for (uint32_t i = 0; i < res.resource_count; ++i) {
    const Resource& r = res.resources[i];
    marked += r.queued;
    WEFT_DCHECK(r.kind != Resource::Kind::none || !r.queued);
    WEFT_DCHECK(r.reply_sent <= r.reply_length && r.reply_length <= r.length);
  }
  WEFT_DCHECK(marked == queued);
  for (uint32_t i = res.reply_head; i != res.reply_tail; ++i) {
    const uint8_t index = res.reply_order[i % res.resource_count];
    WEFT_DCHECK(index < res.resource_count && res.resources[index].queued);
  }
}

}  // namespace

void check_requester(const QueuePair& qp) noexcept {
  const Requester& req = qp.req;
  WEFT_DCHECK(req.una <= req.next && req.next <= req.sent_end && req.sent_end <= req.post_end);
  check_send_queue(qp);
  WEFT_DCHECK(qp.state != QpState::err || (qp.sq.empty() && req.in_flight == 0));
  WEFT_DCHECK(!req.drain_event || qp.state == QpState::sqd || qp.state == QpState::rts ||
              qp.state == QpState::err || qp.state == QpState::sqe);
  WEFT_DCHECK(!qp.transmitted.listed || !qp.reliable());
  WEFT_DCHECK(req.paced == (req.pacer != nullptr || qp.limiter.limits()));
  WEFT_DCHECK(!qp.window_wait.listed || qp.destination != nullptr);
  if (!qp.reliable()) {
    WEFT_DCHECK(req.in_flight == 0 && req.pacer == nullptr && qp.destination == nullptr);
    return;
  }
  WEFT_DCHECK(req.in_flight == 0 || qp.destination != nullptr);
  if (qp.destination == nullptr) return;
  WEFT_DCHECK(req.in_flight == bytes_in_flight(qp));
  WEFT_DCHECK(req.in_flight <= qp.destination->window.in_flight);
  check_reads(qp);
  check_marks(qp);
  check_retries(qp);
}

void check_responder(const QueuePair& qp, const EarlyPackets& early) noexcept {
  using Message = Responder::Message;
  const Responder& res = qp.res;
  WEFT_DCHECK(qp.can_respond() || res.message == Message::none);
  WEFT_DCHECK(res.message != Message::send ||
              (!qp.rq.empty() && res.received <= qp.rq[qp.rq.head()].length));
  WEFT_DCHECK(res.message != Message::write || res.received < res.write_length);
  WEFT_DCHECK(qp.shared == nullptr || qp.rq.size() <= 1);
  WEFT_DCHECK(res.msn <= Psn::kMask && res.advertised <= 31);
  WEFT_DCHECK(qp.telemetry == (res.echo != nullptr));
  WEFT_DCHECK(qp.notices.listed == (res.cnp_queued || res.report_queued));
  if (!qp.reliable()) return;
  WEFT_DCHECK(res.ack_end - res.expected <= 0);
  WEFT_DCHECK(!res.ack_queued || !res.nak_queued);
  const bool replies = res.reply_head != res.reply_tail;
  WEFT_DCHECK(!res.ack_queued || qp.ack_link.listed || replies);
  check_replies(res);
  WEFT_DCHECK(res.gap.early.empty() || qp.can_respond());
  WEFT_DCHECK(res.gap.nak_at.is_never() || !res.gap.since.is_never());
  WEFT_DCHECK(res.gap.nak_at.is_never() || qp.state == QpState::err ||
              (qp.timer.armed() && qp.timer.deadline <= res.gap.nak_at));
  WEFT_DCHECK(res.holes == nullptr || (!res.gap.closed() && qp.can_respond()));
  WEFT_DCHECK(res.holes == nullptr || res.holes->seen_end - res.expected > 0);
  WEFT_DCHECK(res.holes == nullptr || res.holes->advance_at.is_never() ||
              (qp.timer.armed() && qp.timer.deadline <= res.holes->advance_at));
  WEFT_DCHECK(!res.duplicate_ack_owed || !qp.can_respond() ||
              (qp.timer.armed() && qp.timer.deadline <= res.next_duplicate_ack_at));
  WEFT_DCHECK(res.early_window == 0 || res.early_window >= kEarlyWindow);
  WEFT_DCHECK(res.early_window <= kMostEarlyWindow);
  early.check(res.gap.early, res.expected, res.early_window);
}

}  // namespace weft::roce

#endif
