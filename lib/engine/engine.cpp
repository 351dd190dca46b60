// SPDX-License-Identifier: BSD-3-Clause
// The engine's four calls of the packet side and the lists they work on. A received packet goes
// parse -> ICRC -> queue pair -> source -> rc/; a sent one comes from the round robin of active
// queue pairs. The verbs side is in engine_verbs.cpp and engine_post.cpp.
#include "lib/engine/engine.hpp"

#include <algorithm>

#include "lib/engine/rc/rc.hpp"
#include "lib/wire/icrc.hpp"

namespace weft::engine {

namespace {
constexpr uint16_t kRocePort = 4791;   //= roce:C-HDR-7
constexpr uint32_t kQuantum = 32;      // packets of one queue pair before the next has its turn
constexpr uint32_t kCoalesce = 64;     // ACK requests answered by one ACK, at most
constexpr uint32_t kDialogue = 8;      // the same where requests and answers alternate
constexpr uint8_t kMostPatience = 16;  // calls of transmit() that an overtaken ACK waits, at most

Count parse_count(wire::ParseError error) noexcept {
  switch (error) {
    case wire::ParseError::too_short:
      return Count::rx_too_short;
    case wire::ParseError::bad_version:
      return Count::rx_bad_version;
    case wire::ParseError::bad_opcode:
      return Count::rx_bad_opcode;
    case wire::ParseError::bad_dest_qpn:
      return Count::rx_bad_dest_qpn;
    default:
      return Count::rx_bad_payload;
  }
}
}  // namespace

Engine::Engine(Port& port, const EngineConfig& config, base::SecureRandom& random)
    : Machine(port, random),
      config_(config),
      wheel_(config.start),
      number_order_(port.qpn_range().count, random) {}

Engine::~Engine() = default;

void Engine::receive(std::span<const Frame> frames, Instant now) noexcept {
  for (size_t i = 0; i < frames.size(); ++i) {
    if (i + 1 < frames.size()) __builtin_prefetch(frames[i + 1].bytes);
    receive_one(frames[i], now);
  }
}

void Engine::receive_one(const Frame& frame, Instant now) noexcept {
  counters_.add(Count::rx_packets);
  const uint32_t elsewhere = frame.remote_length + frame.more_length;
  counters_.add(Count::rx_bytes, frame.length + elsewhere);
  wire::Packet packet;
  const uint32_t trailer = checks_icrc() ? wire::kIcrcLength : 0;
  const wire::ParseError error = wire::parse(frame.bytes, frame.length, trailer, elsewhere, packet);
  if (error != wire::ParseError::none) return count(parse_count(error));
  //= roce:C-ICRC-15 threat:A12 before any state is touched
  if (trailer != 0 && !verify_icrc(frame, kRocePort)) return count(Count::rx_icrc_error);
  QueuePair* qp = qps_.find(packet.dest_qpn);
  if (qp == nullptr) return count(Count::rx_unknown_qp);
  //= roce:C-HDR-9
  if (packet.info->op_class != wire::OpClass::rc || qp->type != QpType::rc)
    return count(Count::rx_wrong_service);
  //= roce:C-STATE-60
  const bool response = packet.info->response();
  if (response ? !qp->can_request() : !qp->can_respond()) return count(Count::rx_wrong_state);
  //= roce:C-AV-97 threat:A01
  if (frame.path->source != qp->path.destination) return count(Count::rx_bad_source);
  if ((packet.pkey & 0x7FFF) != 0x7FFF) return count(Count::rx_bad_pkey);  //= roce:C-OPS-86
  if (frame.ecn == 3) count(Count::rx_ecn_marked);
  if (response) return rc::on_response(*this, *qp, packet, frame, now);
  if (!qp->established && qp->state == QpState::rtr) {
    qp->established = true;
    raise(EventType::comm_established, qp->number);
  }
  rc::on_request(*this, *qp, packet, frame, now);
}

size_t Engine::transmit(std::span<TxFrame> frames, Instant now) noexcept {
  if (capabilities_.train_frames > 1) builder_.limit_trains(port_.capabilities().train_frames);
  builder_.begin_burst(frames);
  bulk_posted_ = false;
  // Round robin until nobody has anything to send, or there is no room.
  while (active_head_ != nullptr && builder_.has_room()) {
    QueuePair& qp = *active_head_;
    active_head_ = qp.next_active;
    if (active_head_ == nullptr) active_tail_ = nullptr;
    qp.next_active = nullptr;
    qp.active = false;
    const size_t before = builder_.count();
    const rc::Served replies = rc::send_replies(*this, qp, builder_, kQuantum);
    const rc::Served requests = rc::send_requests(*this, qp, builder_, kQuantum, now);
    if (qp.res.ack_queued) ack_behind(qp, builder_.count() - before);
    if (replies == rc::Served::more || requests == rc::Served::more) activate(qp);
    if (qp.destination != nullptr) wake_waiting(*qp.destination);
  }
  transmit_acks(now);
  ++turn_;
  for (size_t i = 0; i < builder_.count(); ++i) counters_.add(Count::tx_bytes, frames[i].length());
  counters_.add(Count::tx_packets, builder_.count());
  return builder_.count();
}

// An acknowledgement rides behind data: in a train it is the short last frame. A lone frame is a
// word in a dialogue: it leaves as quickly as it can, and the acknowledgement later, while the
// other side thinks; how much later, the queue pair has learned (queue_ack).
void Engine::ack_behind(QueuePair& qp, size_t frames) noexcept {
  Responder& res = qp.res;
  if (frames != 1 || res.coalesced >= kDialogue) {
    rc::send_ack(*this, qp, builder_);
    return;
  }
  res.ack_due = turn_ + res.ack_patience;
  res.ack_overtaken = true;
}

// Acknowledgements that have waited for a call, or stand for many requests. //= roce:C-ACK-36
void Engine::transmit_acks(Instant now) noexcept {
  (void)now;
  QueuePair* const stop = ack_tail_;
  while (ack_head_ != nullptr && builder_.has_room()) {
    QueuePair& qp = *ack_head_;
    const bool last = &qp == stop;
    const bool due =
        static_cast<int32_t>(turn_ - qp.res.ack_due) >= 0 || qp.res.coalesced >= kCoalesce;
    // Waited in vain: the peer may be waiting for this acknowledgement.
    if (due && qp.res.ack_overtaken) qp.res.ack_patience = (qp.res.ack_patience + 1) / 2;
    ack_head_ = qp.next_ack;
    if (ack_head_ == nullptr) ack_tail_ = nullptr;
    qp.next_ack = nullptr;
    qp.ack_listed = false;
    if (qp.res.ack_queued && (!due || !rc::send_ack(*this, qp, builder_))) {
      qp.ack_listed = true;
      (ack_tail_ != nullptr ? ack_tail_->next_ack : ack_head_) = &qp;
      ack_tail_ = &qp;
    }
    if (last) break;
  }
}

// The next transmit() sends it, or with what the burst still brings. A peer that sends more though
// our last word has not been acknowledged yet does not wait for that: its acknowledgements get more
// time, so that in a dialogue one stands for several requests.
void Engine::queue_ack(QueuePair& qp) noexcept {
  Responder& res = qp.res;
  ++res.coalesced;
  if (res.nak_queued) return;
  if (res.ack_queued) {
    if (!res.ack_overtaken) return;
    res.ack_patience = std::min<uint8_t>(2 * res.ack_patience, kMostPatience);
  }
  res.ack_queued = true;
  res.ack_overtaken = false;
  res.ack_due = turn_ + 1;
  if (qp.ack_listed) return;
  qp.ack_listed = true;
  qp.next_ack = nullptr;
  (ack_tail_ != nullptr ? ack_tail_->next_ack : ack_head_) = &qp;
  ack_tail_ = &qp;
}

void Engine::activate(QueuePair& qp) noexcept {
  if (qp.active) return;
  qp.active = true;
  qp.next_active = nullptr;
  (active_tail_ != nullptr ? active_tail_->next_active : active_head_) = &qp;
  active_tail_ = &qp;
}

void Engine::wait_for_window(QueuePair& qp) noexcept {
  if (qp.waiting) return;
  Destination& d = *qp.destination;
  qp.waiting = true;
  qp.next_waiting = nullptr;
  (d.waiting_tail != nullptr ? d.waiting_tail->next_waiting : d.waiting_head) = &qp;
  d.waiting_tail = &qp;
}

// Lets the first in line in. transmit() calls this again when it has been served, so that a
// thousand queue pairs are not all woken for room that one of them takes.
void Engine::wake_waiting(Destination& d) noexcept {
  if (d.waiting_head == nullptr || !d.open()) return;
  QueuePair& qp = *d.waiting_head;
  d.waiting_head = qp.next_waiting;
  if (d.waiting_head == nullptr) d.waiting_tail = nullptr;
  qp.waiting = false;
  qp.next_waiting = nullptr;
  activate(qp);
}

void Engine::expire(Instant now) noexcept {
  while (base::TimerNode* node = wheel_.pop_expired(now))
    rc::on_timer(*this, *static_cast<QpTimer*>(node)->owner, now);
  next_deadline_ = wheel_.next_deadline();
}

void Engine::arm_timer(QueuePair& qp, Instant deadline) noexcept {
  if (qp.timer.armed()) {
    if (qp.timer.deadline <= deadline) return;  // it fires earlier and looks again
    wheel_.remove(qp.timer);
  }
  wheel_.insert(qp.timer, deadline);
  next_deadline_ = std::min(next_deadline_, deadline);
}

void Engine::complete(QueuePair& qp, CompletionQueue& cq, const Completion& completion,
                      bool solicited) noexcept {
  const bool overrun_before = cq.overrun();
  if (!overrun_before && cq.push(completion, solicited)) {
    fired_ = fired_ || cq.fired();
    return;
  }
  //= roce:C-OPS-91 threat:A18
  count(Count::cq_overruns);
  if (!overrun_before) raise(EventType::cq_error, qp.number);
  if (qp.state != QpState::err) {
    rc::enter_error(*this, qp);
    raise(EventType::qp_fatal, qp.number);
  }
}

bool Engine::invalidate(QueuePair& qp, uint32_t key) noexcept {
  return keys_.revoke_remote(key, qp.domain);
}

}  // namespace weft::engine
