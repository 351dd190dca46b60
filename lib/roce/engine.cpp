// SPDX-License-Identifier: BSD-3-Clause
// The engine's four calls of the packet side and the lists they work on. A received packet goes
// parse -> ICRC -> queue pair -> source -> rc/; a sent one comes from the round robin of active
// queue pairs. The verbs side is in engine_verbs.cpp and engine_post.cpp.
#include "lib/roce/engine.hpp"

#include <algorithm>
#include <cstring>

#include "lib/roce/rc/rc.hpp"
#include "lib/roce/unreliable/requester.hpp"
#include "lib/roce/unreliable/uc.hpp"
#include "lib/roce/unreliable/ud.hpp"
#include "lib/wire/emit.hpp"
#include "lib/wire/icrc.hpp"

namespace weft::roce {

namespace {
constexpr uint16_t kRocePort = 4791;  //= roce:C-HDR-7
constexpr uint32_t kQuantum = 32;     // packets of one queue pair before the next has its turn

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
      early_(checks_icrc() ? wire::kIcrcLength : 0, config.early_packets),
      number_order_(port.qpn_range().count, random) {
  if (!config.icrc) leave_unsigned();
}

Engine::~Engine() = default;

void Engine::receive(std::span<const Frame> frames, Instant now) noexcept {
  for (size_t i = 0; i < frames.size(); ++i) {
    if (i + 1 < frames.size()) __builtin_prefetch(frames[i + 1].bytes);
    receive_one(frames[i], now);
  }
}

void Engine::receive_one(const Frame& frame, Instant now) noexcept {
  counters_.add(Count::rx_packets);
  counters_.add(Count::rx_bytes, frame.length + frame.remote_length + frame.more_length);
  if (frame.path->destination_port == wire::kIntUdpPort) return receive_telemetry(frame, now);
  receive_packet(frame, nullptr, now);
}

// Takes the block off; what is left is a frame like any other.
void Engine::receive_telemetry(const Frame& frame, Instant now) noexcept {
  const wire::IntBlock* const block = wire::find_int(frame.bytes, frame.length);
  if (block == nullptr) return count(Count::rx_bad_telemetry);
  Frame rest = frame;
  rest.bytes += sizeof *block;
  rest.length -= uint32_t{sizeof *block};
  receive_packet(rest, block, now);
}

void Engine::receive_packet(const Frame& frame, const wire::IntBlock* telemetry,
                            Instant now) noexcept {
  const uint32_t elsewhere = frame.remote_length + frame.more_length;
  wire::Packet packet;
  const uint32_t trailer = checks_icrc() ? wire::kIcrcLength : 0;
  const wire::ParseError error = wire::parse(frame.bytes, frame.length, trailer, elsewhere, packet);
  if (error != wire::ParseError::none) return count(parse_count(error));
  packet.telemetry = telemetry;
  //= roce:C-ICRC-15 threat:A12 before any state is touched
  const uint16_t udp_port = telemetry != nullptr ? wire::kIntUdpPort : kRocePort;
  if (trailer != 0 && !verify_icrc(frame, udp_port)) return count(Count::rx_icrc_error);
  if (packet.dest_qpn == kMulticastQpn) return receive_multicast(packet, frame);
  QueuePair* qp = qps_.find(packet.dest_qpn);
  if (qp == nullptr) {
    if (packet.dest_qpn == wire::kGsiQpn && services_ != nullptr)
      return receive_management(packet, frame, now);
    port_.forget(packet.dest_qpn);  // it may have been asked to bring the flow of one that has gone
    return count(Count::rx_unknown_qp);
  }
  //= roce:C-HDR-9
  const wire::OpClass service = packet.info->op_class;
  const bool is_cnp = service == wire::OpClass::cnp;
  if (service != qp->service && !is_cnp) return count(Count::rx_wrong_service);
  //= roce:C-STATE-60
  const bool response = packet.info->response();
  const bool takes = is_cnp     ? qp->can_request() || qp->can_respond()
                     : response ? qp->can_request()
                                : qp->can_respond();
  if (!takes) return count(Count::rx_wrong_state);
  //= roce:C-AV-97 threat:A01 threat:A11 threat:A14
  if (frame.path->source != qp->path.destination && service != wire::OpClass::ud)
    return count(Count::rx_bad_source);
  if ((packet.pkey & 0x7FFF) != 0x7FFF) return count(Count::rx_bad_pkey);  //= roce:C-OPS-86
  if ((telemetry != nullptr) != qp->telemetry) return count(Count::rx_unagreed_telemetry);
  if (is_cnp) {
    // Where telemetry is agreed, one without its bit reports READ responses (lib/wire/INT.md).
    if (telemetry != nullptr && !packet.becn) return rc::on_report(*this, *qp, packet, now);
    count(Count::rx_cnps);
    return rc::on_cnp(*this, *qp, now);
  }
  if (frame.ecn == 3) {
    count(Count::rx_ecn_marked);
    if (qp->type != QpType::ud && packet.info->operation != wire::Operation::acknowledge)
      note_mark(*qp, now);
  }
  if (telemetry != nullptr && !telemetry->is_echo())
    rc::note_telemetry(*qp, *telemetry, frame.ecn == 3);
  if (response) return rc::on_response(*this, *qp, packet, frame, now);
  if (!qp->established) note_first_request(*qp, now);
  if (qp->reliable()) return rc::on_request(*this, *qp, packet, frame, now);
  if (service == wire::OpClass::uc) return uc::on_request(*this, *qp, packet, frame);
  ud::on_datagram(*this, *qp, packet, frame);
}

// Whoever connected it hears of it: the word that the peer is ready may be lost.
void Engine::note_first_request(QueuePair& qp, Instant now) noexcept {
  qp.established = true;
  if (qp.state == QpState::rtr) raise(EventType::comm_established, qp.number);
  if (services_ != nullptr)
    services_->on_first_request(qp.number, qp.path.destination, qp.peer, now);
}

// To each member of the group as if it were for that one, but not back to its sender.
//= roce:C-OPS-87 roce:C-HDR-10
void Engine::receive_multicast(const wire::Packet& packet, const Frame& frame) noexcept {
  if (packet.info->op_class != wire::OpClass::ud) return count(Count::rx_wrong_service);
  if (packet.telemetry != nullptr) return count(Count::rx_unagreed_telemetry);
  if ((packet.pkey & 0x7FFF) != 0x7FFF) return count(Count::rx_bad_pkey);
  const std::span<QueuePair* const> members = groups_.members(frame.path->destination);
  if (members.empty()) return count(Count::rx_no_group);
  if (frame.ecn == 3) count(Count::rx_ecn_marked);
  const bool ours = frame.path->source == port_.address();
  for (QueuePair* const qp : members) {
    if (ours && packet.deth().source_qpn == qp->number.value) continue;
    if (qp->can_respond())
      ud::on_datagram(*this, *qp, packet, frame);
    else
      count(Count::rx_wrong_state);
  }
}

// Most calls have nothing to send, and save nothing on the stack for it.
size_t Engine::transmit(std::span<TxFrame> frames, Instant now) noexcept {
  if (has_active() || !notices_.empty() || acks_due()) return fill(frames, now);
  return ++turn_, 0;
}

size_t Engine::fill(std::span<TxFrame> frames, Instant now) noexcept {
  if (capabilities_.train_frames > 1) builder_.limit_trains(port_.capabilities().train_frames);
  builder_.begin_burst(frames);
  bulk_posted_ = false;
  if (!notices_.empty()) transmit_notices();
  if (services_ != nullptr) transmit_management();
  if (acks_first_ && acks_due()) transmit_acks();
  for (QueuePair* const stop = handed_.back(); !handed_.empty();) {
    QueuePair& qp = handed_.pop();
    complete_handed(*this, qp);
    if (&qp == stop) break;
  }
  // Round robin until nobody has anything to send, or there is no room.
  while (!active_.empty() && builder_.has_room()) {
    QueuePair& qp = active_.pop();
    if (!qp.reliable()) {
      if (send_unreliable(*this, qp, builder_, kQuantum) == Served::more) activate(qp);
      continue;
    }
    const size_t before = builder_.count();
    const bool more = rc::has_replies(qp)
                          ? serve(qp, now)
                          : rc::send_requests(*this, qp, builder_, kQuantum, now) == Served::more;
    // Without data of its own an ACK is not hurried: who was only woken by the peer's ACK would
    // answer that with his, and so on.
    const size_t frames = builder_.count() - before;
    if (frames != 0 && qp.res.ack_queued && qp.res.ack_patience.goes_behind(frames, turn_))
      rc::send_ack(*this, qp, builder_);
    if (more) activate(qp);
    if (qp.destination != nullptr) wake_waiting(*qp.destination);
  }
  if (acks_due()) transmit_acks();
  acks_first_ = !builder_.has_room();  // else data of others could keep them back for ever
  ++turn_;
  counters_.add(Count::tx_bytes, builder_.bytes());
  counters_.add(Count::tx_packets, builder_.count());
  return builder_.count();
}

// Answers, then requests. Under a controller both wait for the same time to leave, so that they
// take turns at being first. True: there is more than fits.
bool Engine::serve(QueuePair& qp, Instant now) noexcept {
  const size_t before = builder_.count();
  const auto reply = [&] { return rc::send_replies(*this, qp, builder_, kQuantum, now); };
  if (qp.req.pacer && qp.res.replies_last) {
    const Served requests = rc::send_requests(*this, qp, builder_, kQuantum, now);
    if (builder_.count() != before) qp.res.replies_last = false;
    return reply() == Served::more || requests == Served::more;
  }
  const Served replies = reply();
  if (builder_.count() != before) qp.res.replies_last = true;
  return rc::send_requests(*this, qp, builder_, kQuantum, now) == Served::more ||
         replies == Served::more;
}

// What came was marked on its way: the peer is to know, not too often. //= roce:C-CC-101
void Engine::note_mark(QueuePair& qp, Instant now) noexcept {
  if (now < qp.cnp_quiet_until) return;
  qp.cnp_quiet_until = now + config_.cnp_interval;
  qp.res.owes_cnp = true;
  notices_.push(qp);
}

void Engine::owe_report(QueuePair& qp, Psn psn) noexcept {
  if (!qp.telemetry) return;
  qp.res.owes_report = true;
  qp.res.reported = psn;
  notices_.push(qp);
}

void Engine::transmit_notices() noexcept {
  while (!notices_.empty() && builder_.has_room()) {
    QueuePair& qp = notices_.pop();
    if (std::exchange(qp.res.owes_cnp, false)) {
      emit_cnp(qp);
    } else if (std::exchange(qp.res.owes_report, false)) {
      rc::emit_report(qp, builder_);
      count(Count::tx_reports);
    }
    if (qp.res.owes_report) notices_.push(qp);
  }
}

//= roce:C-CC-102 roce:C-CC-105 a peer that knows no CNP (rxe) drops it, and nothing else
void Engine::emit_cnp(QueuePair& qp) noexcept {
  const uint32_t length = wire::opcode_info(wire::kCnp).header_length;
  std::byte* const at = builder_.start(qp.path, length, 0);
  std::byte* const pad = wire::emit_bth(at, {.opcode = wire::kCnp, .dest = qp.peer, .becn = true});
  std::memset(pad, 0, length - wire::kBthLength);
  builder_.finish();
  count(Count::tx_cnps);
}

// In real time a paced packet leaves when somebody looks after its time: by how much.
void Engine::count_departure(uint64_t late_ns) noexcept {
  counters_.add(Count::paced_waits);
  counters_.add(Count::paced_late_ns, late_ns);
  counters_.raise(Count::paced_late_most_ns, late_ns);
}

// Acknowledgements whose time has come, or that stand for many requests; some may be due.
//= roce:C-ACK-36
void Engine::transmit_acks() noexcept {
  constexpr uint32_t kFar = 1u << 30;
  acks_due_ = turn_ + kFar;
  QueuePair* const stop = acks_.back();
  while (builder_.has_room()) {
    QueuePair& qp = acks_.pop();
    // One behind replies that wait for their time comes back with them (resume_ack).
    if (qp.res.ack_queued && !transmit_ack(qp) && !rc::has_replies(qp)) line_up_ack(qp);
    if (&qp == stop) return;
  }
  acks_due_ = turn_;  // for those that found no room
}

void Engine::line_up_ack(QueuePair& qp) noexcept {
  const uint32_t due = qp.res.ack_patience.due_turn();
  if (acks_.empty() || static_cast<int32_t>(due - acks_due_) < 0) acks_due_ = due;
  acks_.push(qp);
}

// False: not yet.
bool Engine::transmit_ack(QueuePair& qp) noexcept {
  AckPatience& patience = qp.res.ack_patience;
  if (!patience.due(turn_) || !rc::send_ack(*this, qp, builder_)) return false;
  patience.on_due();
  return true;
}

void Engine::queue_ack(QueuePair& qp) noexcept {
  Responder& res = qp.res;
  if (res.nak_queued) return;
  res.ack_patience.queue(res.ack_queued, turn_);
  res.ack_queued = true;
  line_up_ack(qp);
}

void Engine::expire(Instant now) noexcept {
  while (base::TimerNode* node = wheel_.pop_expired(now))
    rc::on_timer(*this, *static_cast<QpTimer*>(node)->owner, now);
  next_deadline_ = wheel_.next_deadline();
  if (services_ == nullptr) return;
  services_->expire(now);
  services_changed();
}

void Engine::arm_timer(QueuePair& qp, Instant deadline) noexcept {
  if (qp.timer.armed()) {
    if (qp.timer.deadline <= deadline) return;  // it fires earlier and looks again
    wheel_.remove(qp.timer);
  }
  wheel_.insert(qp.timer, deadline);
  next_deadline_ = std::min(next_deadline_, deadline);
}

// Its completion found no room.
void Engine::fail_overrun(QueuePair& qp) noexcept {
  if (qp.state == QpState::err) return;
  enter_error(*this, qp);
  raise(EventType::qp_fatal, qp.number);
}

bool Engine::invalidate(QueuePair& qp, uint32_t key) noexcept {
  return keys_.revoke(key, qp.access_context());
}

}  // namespace weft::roce
