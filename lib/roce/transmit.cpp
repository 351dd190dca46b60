// SPDX-License-Identifier: BSD-3-Clause
// Sent packets: notices and MADs, then the round robin of active queue pairs, then acknowledgements
// that are due; and timers.
#include <algorithm>
#include <cstring>

#include "lib/roce/engine.hpp"
#include "lib/roce/rc/rc.hpp"
#include "lib/roce/unreliable/unreliable.hpp"
#include "lib/wire/emit.hpp"

namespace weft::roce {

namespace {

constexpr uint32_t kQuantum = 32;  // packets of one queue pair before the next is served

// In a class of its own, so that CNPs do not wait behind the data that caused them; without ECT, as
// a mark on a CNP means nothing.
//= roce:C-CC-102 roce:C-CC-105 a peer that knows no CNP (rxe) drops it, and nothing else
void emit_cnp(const QueuePair& qp, uint8_t dscp, FrameBuilder& out) noexcept {
  const uint32_t length = wire::opcode_info(wire::kCnp).header_length;
  Path path = qp.path;
  path.traffic_class = static_cast<uint8_t>(dscp << 2);
  std::byte* const at = out.start(out.keep(path), length, 0);
  std::byte* const pad =
      wire::emit_bth(at, {.opcode = wire::kCnp, .dest = qp.peer, .mig_req = false, .becn = true});
  std::memset(pad, 0, length - wire::kBthLength);
  out.finish();
}

}  // namespace

// Most calls have nothing to send; they save no registers.
size_t Engine::transmit(std::span<TxFrame> frames, Instant now) noexcept {
  if (has_active() || !notices_.empty() || acks_.due()) return fill(frames, now);
  return acks_.end_turn(), 0;
}

size_t Engine::fill(std::span<TxFrame> frames, Instant now) noexcept {
  if (capabilities_.train_frames > 1) builder_.limit_trains(port_.capabilities().train_frames);
  builder_.begin_burst(frames);
  bulk_posted_ = false;
  if (!notices_.empty()) transmit_notices();
  if (gsi_.services() != nullptr) gsi_.transmit(port_, builder_, config_.habits.migrated);
  if (acks_.starved() && acks_.due()) transmit_acks();
  for (QueuePair* const last = transmitted_.back(); !transmitted_.empty();) {
    QueuePair& qp = transmitted_.pop();
    complete_transmitted(*this, qp);
    if (&qp == last) break;
  }
  // Round robin until no queue pair has anything to send, or there is no room.
  while (!active_.empty() && builder_.has_room()) {
    QueuePair& qp = active_.pop();
    if (!qp.reliable()) {
      if (send_unreliable(*this, qp, builder_, kQuantum, now) == Served::more) activate(qp);
      continue;
    }
    const size_t before = builder_.count();
    const bool more = rc::has_replies(qp)
                          ? serve(qp, now)
                          : rc::send_requests(*this, qp, builder_, kQuantum, now) == Served::more;
    // An ACK is piggy-backed on data only: two queue pairs that activate each other by ACKs would
    // otherwise acknowledge every ACK at once.
    const size_t sent = builder_.count() - before;
    if (sent != 0 && qp.res.ack_queued && qp.res.ack_delay.goes_behind(sent, acks_.turn()))
      rc::send_ack(*this, qp, builder_);
    if (more) activate(qp);
    if (qp.destination != nullptr) wake_waiting(*qp.destination);
  }
  if (acks_.due()) transmit_acks();
  acks_.end_turn(builder_.has_room());
  counters_.add(Count::tx_bytes, builder_.bytes());
  counters_.add(Count::tx_packets, builder_.count());
  WEFT_DCHECK(builder_.count() <= frames.size());
  return builder_.count();
}

// Sends responses, then requests; where they are paced, they alternate in going first.
// True: there is more than fits.
bool Engine::serve(QueuePair& qp, Instant now) noexcept {
  const size_t before = builder_.count();
  const auto reply = [&] { return rc::send_replies(*this, qp, builder_, kQuantum, now); };
  if (qp.req.paced && qp.res.requests_first) {
    const Served requests = rc::send_requests(*this, qp, builder_, kQuantum, now);
    if (builder_.count() != before) qp.res.requests_first = false;
    return reply() == Served::more || requests == Served::more;
  }
  const Served replies = reply();
  if (builder_.count() != before) qp.res.requests_first = true;
  return rc::send_requests(*this, qp, builder_, kQuantum, now) == Served::more ||
         replies == Served::more;
}

void Engine::transmit_notices() noexcept {
  notices_.serve([this] { return builder_.has_room(); },
                 [this](QueuePair& qp) {
                   emit_cnp(qp, config_.cnp_dscp, builder_);
                   count(Count::tx_cnps);
                 },
                 [this](QueuePair& qp) {
                   rc::emit_report(qp, builder_);
                   count(Count::tx_reports);
                 });
}

// Sends acknowledgements whose turn has come, and those that cover many requests.
void Engine::transmit_acks() noexcept {
  acks_.serve([this] { return builder_.has_room(); },
              [this](QueuePair& qp) {
                if (!qp.res.ack_queued) return false;
                AckDelay& delay = qp.res.ack_delay;
                if (delay.due(acks_.turn()) && rc::send_ack(*this, qp, builder_)) {
                  delay.on_due();
                  return false;
                }
                return !rc::has_replies(qp);  // behind responses: AckSchedule::resume()
              });
}

void Engine::expire(Instant now) noexcept {
  while (base::TimerNode* node = wheel_.pop_expired(now)) {
    QueuePair& qp = *static_cast<QpTimer*>(node)->owner;
    WEFT_DCHECK(&qp.timer == node);
    if (qp.reliable())
      rc::on_timer(*this, qp, now);
    else
      activate(qp);  // it waited for its rate
  }
  next_deadline_ = wheel_.next_deadline();
  GeneralServices* const services = gsi_.services();
  if (services == nullptr) return;
  services->expire(now);
  services_changed();
}

void Engine::lose_peer(const LostPeer& lost, Instant now) noexcept {
  set_time(now);
  for (const auto& [number, qp] : owned_) {
    const bool waits = qp->reliable() && qp->can_request() && !qp->sq.empty();
    if (!waits || !lost.covers(qp->path.destination, qp->peer, qp->path.in_memory)) continue;
    count(Count::peers_lost);
    fail_request(*this, *qp, Status::retry_exceeded, transport::detail_of(lost.sign));
  }
}

void Engine::services_changed() noexcept {
  if (gsi_.services() != nullptr)
    next_deadline_ = std::min(next_deadline_, gsi_.services()->next_deadline());
}

}  // namespace weft::roce
