// SPDX-License-Identifier: BSD-3-Clause
// Go-back-N retransmission. Three events cause it: a retransmission timeout, a NAK sequence error
// (or a missing response), and an RNR NAK. Each moves the send cursor back to the oldest PSN;
// retries and RNR retries are limited separately (IBTA 9.7.6). The timer of a queue pair is armed
// lazily: it may fire early, then the true deadline is compared and the timer armed again.
#include <algorithm>

#include "lib/roce/rc/rc.hpp"

namespace weft::roce::rc {

namespace {

// IBTA table 45, in units of 10 us. //= roce:C-NAK-42
constexpr uint32_t kRnrTimer[32] = {65536, 1,    2,    3,     4,     6,     8,     12,
                                    16,    24,   32,   48,    64,    96,    128,   192,
                                    256,   384,  512,  768,   1024,  1536,  2048,  3072,
                                    4096,  6144, 8192, 12288, 16384, 24576, 32768, 49152};

constexpr uint8_t kProbesToAsk = 3;  // without an answer, before the peer's host is asked

// The packet at una, or its acknowledgement, is lost. False: there are no retries left. A peer that
// is stopped costs none: only time has passed.
bool take_retry(EngineState& engine, QueuePair& qp, bool silent) noexcept {
  using Verdict = transport::StoppedPeer::Verdict;
  Requester& req = qp.req;
  WEFT_DCHECK(req.retries_left <= *qp.attributes.retry_count);
  if (req.retries_left != 0) {
    const bool endless = engine.config().habits.retries_for_ever && *qp.attributes.retry_count == 7;
    if (!endless) --req.retries_left;
    return true;
  }
  if (!silent || !engine.config().waits_for_stopped) return false;
  const Verdict peer = qp.stopped.look(req.una, engine.unread_by_peer(qp));
  if (peer == Verdict::went_on) req.retries_left = *qp.attributes.retry_count;
  return peer != Verdict::dead;
}

// Packets that may wait for their time: new ones, and those that are sent again alone.
bool has_waiting(const QueuePair& qp) noexcept {
  const Requester& req = qp.req;
  return req.next_index != qp.sq.tail() || req.probing || req.scoreboard != nullptr;
}

}  // namespace

uint32_t entry_of(const QueuePair& qp, uint64_t psn) noexcept {
  WEFT_DCHECK(qp.req.una <= psn && psn <= qp.req.post_end);
  uint32_t low = qp.sq.head(), count = qp.sq.size();
  while (count > 1) {  // the first PSNs are ascending
    const uint32_t half = count / 2;
    if (qp.sq[low + half].first_psn <= psn) {
      low += half;
      count -= half;
    } else {
      count = half;
    }
  }
  return count != 0 && psn >= qp.sq[low].end_psn() ? low + 1 : low;
}

Duration rnr_delay(uint8_t code, bool in_jiffies) noexcept {
  const Duration exact = Duration::from_us(10) * kRnrTimer[code & wire::kSyndromeValueMask];
  if (!in_jiffies) return exact;
  return kJiffy * ((exact.ps + kJiffy.ps - 1) / kJiffy.ps);
}

void forget_time_outs(EngineState& engine, QueuePair& qp, Instant now) noexcept {
  if (!qp.req.retry_at.is_never()) end_silence(qp, now);
  qp.set_retry_delay(engine.config().habits.retry_timer, 0);
}

void end_silence(QueuePair& qp, Instant now) noexcept {
  Requester& req = qp.req;
  // A probe that was not needed is a sample, too, or the next ones would not be either.
  if (req.timed || req.probes != 0) req.round_trip.sample(now - qp.silent_since());
  stop_probes(req);
}

void restart_retry_timer(EngineState& engine, QueuePair& qp, bool first, Instant now) noexcept {
  Requester& req = qp.req;
  if (!req.retry_at.is_never()) end_silence(qp, now);
  const Duration delay = qp.retry_delay;
  //= roce:C-RETRY-52
  if (req.una == req.next || delay.ps == 0 || !req.rnr_until.is_never()) {
    req.retry_at = Instant::never();
    return;
  }
  req.retry_at = now + delay;
  req.timed = first && qp.probes;
  engine.arm_timer(qp, std::min(req.retry_at, qp.probe_at()));
}

void rewind(EngineState& engine, QueuePair& qp, uint64_t psn) noexcept {
  Requester& req = qp.req;
  WEFT_DCHECK(req.una <= psn && req.next <= req.sent_end);
  if (psn >= req.next) return;
  uint32_t index = entry_of(qp, psn);
  uint64_t freed = 0;
  const uint32_t first = index;
  for (uint64_t at = psn; at < req.next; ++index) {
    const uint64_t end = std::min(qp.sq[index].end_psn(), req.next);
    WEFT_DCHECK(index != qp.sq.tail());
    freed += (end - at - take_marks(req, at, end)) * cost_of(qp, qp.sq[index]);
    at = end;
  }
  WEFT_DCHECK(freed <= req.in_flight && req.in_flight <= qp.destination->window.in_flight);
  req.next = psn;
  req.next_index = first;
  req.since_ack_request = 0;
  if (req.pacer) req.pacer->on_rewind(psn);
  while (req.reads_tail != req.reads_head && req.reads[(req.reads_tail - 1) & req.reads_mask] > psn)
    --req.reads_tail;
  req.in_flight -= freed;
  qp.destination->window.forget(freed);
  engine.count(Count::tx_rewinds);
  engine.wake_waiting(*qp.destination);
  engine.activate(qp);
}

void on_loss(EngineState& engine, QueuePair& qp, Instant now,
             congestion::Loss::Reason reason) noexcept {
  Requester& req = qp.req;
  if (req.next == req.una) return;  // rewound already: one loss costs one retry
  qp.destination->window.on_loss();
  if (req.pacer) {
    req.pacer->on_loss(now, reason);
    apply_pacing(engine, qp);
  }
  const Habits& habits = engine.config().habits;
  const bool silent = reason == congestion::Loss::Reason::timeout;
  const bool counts = !silent || counts_as_retry(habits.retry_timer, qp.expired);
  if (counts && !take_retry(engine, qp, silent)) {
    engine.count(Count::retry_exceeded);
    return fail_request(engine, qp, Status::retry_exceeded, 0);
  }
  if (silent && habits.retry_timer == RetryTimer::short_first)
    qp.set_retry_delay(habits.retry_timer, static_cast<uint8_t>(std::min(qp.expired + 1, 255)));
  rewind(engine, qp, req.una);
  req.retry_at = Instant::never();
  stop_probes(req);
}

void on_rnr(EngineState& engine, QueuePair& qp, uint8_t timer, Instant now) noexcept {
  Requester& req = qp.req;
  if (!req.rnr_until.is_never()) return;  // an RNR wait is in progress //= roce:C-NAK-128
  if (req.rnr_left == 0) {
    engine.count(Count::rnr_exceeded);
    return fail_request(engine, qp, Status::rnr_retry_exceeded, wire::kSyndromeRnr | timer);
  }
  WEFT_DCHECK(req.rnr_left <= *qp.attributes.rnr_retry);
  if (*qp.attributes.rnr_retry != 7) --req.rnr_left;  //= roce:C-RETRY-48
  rewind(engine, qp, req.una);
  req.rnr_until = now + rnr_delay(timer, engine.config().habits.rnr_in_jiffies);
  req.retry_at = Instant::never();  //= roce:C-RETRY-53
  stop_probes(req);
  engine.arm_timer(qp, req.rnr_until);
}

// Arms the timer for the controller's deadline, which may have changed; not for an idle queue pair.
void apply_pacing(EngineState& engine, QueuePair& qp) noexcept {
  const Instant deadline = qp.req.pacer->deadline();
  const bool busy = qp.req.una != qp.req.post_end || has_replies(qp);
  if (!deadline.is_never() && busy) engine.arm_timer(qp, deadline);
}

// Any number of CNPs is harmless: controllers do not go below min_rate. //= threat:A14
void on_cnp(EngineState& engine, QueuePair& qp, Instant now) noexcept {
  if (!qp.req.pacer) return;  //= roce:C-CC-103
  qp.req.pacer->on_cnp(now);
  apply_pacing(engine, qp);
}

void on_timer(EngineState& engine, QueuePair& qp, Instant now) noexcept {
  Requester& req = qp.req;
  if (qp.can_respond()) on_responder_timer(engine, qp, now);
  if (has_replies(qp)) engine.activate(qp);
  if (req.pacer) {
    req.pacer->on_deadline(now);
    apply_pacing(engine, qp);
  }
  if (req.paced && has_waiting(qp)) engine.activate(qp);
  if (!qp.can_request()) return;
  if (req.rnr_until <= now) {
    req.rnr_until = Instant::never();
    engine.activate(qp);
  } else if (req.retry_at <= now) {
    engine.count(Count::timeouts);
    engine.ask_for_peer(qp);
    req.response_gap = false;
    on_loss(engine, qp, now, congestion::Loss::Reason::timeout);  //= roce:C-RETRY-47
    if (!qp.can_request()) return;
  } else if (qp.probe_at() <= now) {
    ++req.probes;
    req.probing = true;
    if (req.probes >= kProbesToAsk) engine.ask_for_peer(qp);
    engine.activate(qp);
  }
  const Instant next = std::min({req.rnr_until, req.retry_at, qp.probe_at()});
  if (!next.is_never()) engine.arm_timer(qp, next);
}

}  // namespace weft::roce::rc
