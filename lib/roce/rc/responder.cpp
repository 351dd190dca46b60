// SPDX-License-Identifier: BSD-3-Clause
// Requests at the responder, one packet at a time: sequence, then legality, then resources, then
// execution (IBTA 9.7.4). Each check names what is wrong as a Verdict; one switch at the end acts.
// Packets behind a gap wait (early.hpp) and take the same way when it has closed.
#include <algorithm>

#include "lib/roce/rc/rc.hpp"

namespace weft::roce::rc {

namespace {

[[gnu::always_inline]] inline Verdict execute(Engine& engine, QueuePair& qp,
                                              const wire::Packet& packet,
                                              const Frame& frame) noexcept {
  if (packet.info->xrceth && !adopt_pool(engine, qp, packet.xrceth().srq))
    return Verdict::nak(wire::kNakInvalidRd);
  if (!in_order(qp, packet) || !length_fits(engine, qp, packet))
    return Verdict::nak(wire::kNakInvalidRequest);  //= roce:C-NAK-38
  const wire::Operation operation = packet.info->operation;
  if (operation == wire::Operation::send || operation == wire::Operation::write)
    return execute_message(engine, qp, packet, frame);
  uint8_t syndrome = 0;
  switch (operation) {
    case wire::Operation::read_request:
      syndrome = execute_read(engine, qp, packet);
      break;
    case wire::Operation::atomic_write:
    case wire::Operation::flush:
      syndrome = frame.more_length == 0 && frame.remote_length == 0
                     ? execute_effect(engine, qp, packet)
                     : wire::kNakInvalidRequest;  // eight bytes do not lie elsewhere
      break;
    default:
      syndrome = execute_atomic(engine, qp, packet);
      break;
  }
  return syndrome == 0 ? Verdict{} : Verdict::nak(syndrome);
}

void queue_nak(Engine& engine, QueuePair& qp, uint8_t syndrome) noexcept {
  qp.res.nak_sent = true;
  qp.res.nak_queued = true;
  qp.res.nak_syndrome = syndrome;
  qp.res.ack_queued = false;  // the NAK acknowledges what came before it
  engine.activate(qp);
}

// A fatal NAK: the receive in use fails with its own status, the rest is flushed, the queue pair's
// owner is told (//= roce:C-NAK-43). The key of a WRITE that was good when it began we took back
// ourselves: nobody has guessed.
void refuse(Engine& engine, QueuePair& qp, const Verdict& verdict,
            const wire::OpcodeInfo& info) noexcept {
  const bool guessed = info.operation != wire::Operation::write || info.starts_message();
  const bool access =
      verdict.syndrome() == wire::kNakRemoteAccess || verdict.syndrome() == wire::kNakInvalidRd;
  if (access && guessed)
    engine.note_violation(qp);
  else
    engine.count(access ? Count::access_errors : Count::request_errors);
  if (verdict.receive_status() != Status::success && !qp.rq.empty())
    complete_receive(engine, qp, verdict.receive_status(), 0, nullptr);
  enter_error(engine, qp, Replies::send);  // what came before the bad request still succeeds
  queue_nak(engine, qp, verdict.syndrome());
  engine.raise(access ? EventType::qp_access_error : EventType::qp_request_error, qp.number);
}

// What was not executed.
[[gnu::noinline]] void reject(Engine& engine, QueuePair& qp, const Verdict& verdict,
                              const wire::OpcodeInfo& info) noexcept {
  switch (verdict.kind()) {
    case Verdict::Kind::accept:
      return;
    case Verdict::Kind::drop:
      return engine.count(Count::rx_pull_failed);
    case Verdict::Kind::rnr:
      return queue_nak(engine, qp, wire::kSyndromeRnr | *qp.attributes.min_rnr_timer);
    case Verdict::Kind::nak:
      return refuse(engine, qp, verdict, info);
  }
}

// Each answer tells all there is to know, so a flood of duplicates (or of spoofed packets that look
// like some) gets few of them. //= threat:A02
constexpr Duration kDuplicateAnswers = Duration::from_us(4);

// The first packet behind a gap is a little ahead and is answered at once. One far ahead is the
// successor of a lost READ of many PSNs or, more likely, spoofed: a NAK would make the true peer go
// back for nothing, so it must find the sequence at the same place as another did long before.
// //= threat:A02
constexpr int32_t kFar = 4096;
constexpr Duration kStandsStill = Duration::from_us(1000);

bool calls_for_nak(Responder& res, int32_t ahead, Instant now) noexcept {
  if (res.nak_sent) return false;
  if (ahead < kFar) return true;
  if (res.far_expected == res.expected) return now - res.far_since >= kStandsStill;
  res.far_expected = res.expected;
  res.far_since = now;
  return false;
}

void on_duplicate(Engine& engine, QueuePair& qp, const wire::Packet& packet, Instant now) noexcept {
  engine.count(Count::rx_duplicates);
  qp.res.gap.on_duplicate(packet.psn);
  const wire::Operation operation = packet.info->operation;
  if (operation == wire::Operation::send || operation == wire::Operation::write) {
    if (now < qp.res.duplicates_quiet_until) return;
    qp.res.duplicates_quiet_until = now + kDuplicateAnswers;
    return engine.queue_ack(qp);  //= roce:C-DUP-24
  }
  replay(engine, qp, packet, now);
}

uint32_t psns_of(const QueuePair& qp, const wire::Packet& packet) noexcept {
  if (packet.info->operation != wire::Operation::read_request) return 1;
  const uint64_t length = uint32_t{packet.reth().length};
  return std::max<uint32_t>(1, static_cast<uint32_t>((length + qp.mtu() - 1) >> qp.mtu_shift));
}

// An ACK names the last SEND or WRITE, never a READ or atomic behind it: their answers speak for
// themselves. Kernel rxe takes an ACK of a READ's own PSN for its end, without the data, and where
// the answer is lost such an ACK may not be. //= roce:C-DUP-24 roce:C-ACK-31
void note_answered(Responder& res, const wire::Packet& packet, uint32_t packets) noexcept {
  constexpr uint32_t kFarthest = 1 << 22;  // what is older would look like something new in the end
  const uint32_t behind = static_cast<uint32_t>(packet.psn - res.told_by_acks) & Psn::kMask;
  if (behind + packets > kFarthest)
    res.told_by_acks = res.expected + (Psn::kMask + 1 - kFarthest / 2);
}

// The packet at `expected`. False: it was not executed, or the queue pair is not to go on. Inline:
// most packets come in their turn.
[[gnu::always_inline]] inline bool take(Engine& engine, QueuePair& qp, const wire::Packet& packet,
                                        const Frame& frame) noexcept {
  Responder& res = qp.res;
  const wire::OpcodeInfo& info = *packet.info;
  const bool answered =
      info.operation != wire::Operation::send && info.operation != wire::Operation::write;
  const uint32_t packets = answered ? psns_of(qp, packet) : 1;
  if (res.nak_queued) engine.queue_ack(qp);  // the NAK that did not leave stood for an ACK too
  res.nak_sent = res.nak_queued = false;
  const Verdict verdict = execute(engine, qp, packet, frame);
  if (qp.state == QpState::err) return false;  // its CQ overran
  if (verdict.kind() != Verdict::Kind::accept)
    return reject(engine, qp, verdict, *packet.info), false;
  res.expected = res.expected + packets;
  if (answered) return note_answered(res, packet, packets), true;
  res.told_by_acks = res.expected;
  if (info.ends_message()) res.msn = (res.msn + 1) & Psn::kMask;
  if (packet.ack_request) engine.queue_ack(qp);  //= roce:C-ACK-30
  return true;
}

void open_gap(Engine& engine, QueuePair& qp, bool doubt, Instant now) noexcept {
  qp.res.gap.open(now, doubt);
  engine.arm_timer(qp, qp.res.gap.nak_at);
}

constexpr int32_t kWitnesses = 4;  // one of these behind an early packet speaks for it

// The same for one that came early.
[[gnu::noinline]] bool take_kept(Engine& engine, QueuePair& qp, const wire::Packet& packet,
                                 const Frame& frame) noexcept {
  return take(engine, qp, packet, frame);
}

// Executes early packets whose turn has come, up to the next gap, or to one that nothing confirms:
// `arrived` has come just now, so it needs no confirmation.
void take_early(Engine& engine, QueuePair& qp, Psn arrived, Instant now) noexcept {
  EarlyPackets& early = engine.early();
  EarlyLine& line = qp.res.gap.early;
  const uint32_t trailer = engine.checks_icrc() ? wire::kIcrcLength : 0;
  while (!line.empty()) {
    const Psn psn = early.first_psn(line);
    const int32_t ahead = psn - qp.res.expected;
    if (ahead > 0) {
      if (!qp.res.nak_sent && qp.res.gap.since.is_never()) open_gap(engine, qp, false, now);
      return;
    }
    if (ahead == 0) {
      wire::Packet packet;
      const Frame frame = early.first(line);
      (void)wire::parse(frame.bytes, frame.length, trailer, frame.more_length, packet);
      if (psn != arrived && !early.second_within(line, psn + psns_of(qp, packet), kWitnesses)) {
        if (!qp.res.nak_sent && qp.res.gap.since.is_never()) open_gap(engine, qp, true, now);
        return;
      }
      qp.res.gap.close(psn, qp.res.nak_sent, now);
      const bool taken = take_kept(engine, qp, packet, frame);
      if (!taken) {
        if (!line.empty()) early.drop_first(line);
        return;
      }
    }
    early.drop_first(line);
  }
}

// A packet behind a gap: it is kept, and the NAK waits while the missing one may only be late. What
// cannot be kept must be sent again, so the peer hears of it at once. //= roce:C-PSN-19
void on_early(Engine& engine, QueuePair& qp, const wire::Packet& packet, const Frame& frame,
              int32_t ahead, Instant now) noexcept {
  Responder& res = qp.res;
  engine.count(Count::rx_out_of_sequence);
  const EarlyPackets::Kept kept = ahead < kEarlyWindow
                                      ? engine.early().keep(res.gap.early, packet.psn, frame)
                                      : EarlyPackets::Kept::no;
  switch (kept) {
    case EarlyPackets::Kept::yes:
      engine.count(Count::rx_early);
      if (res.gap.since.is_never()) open_gap(engine, qp, false, now);
      break;
    case EarlyPackets::Kept::already:
      engine.count(Count::rx_duplicates);
      break;
    case EarlyPackets::Kept::doubtful:
      return;
    case EarlyPackets::Kept::no:
      if (res.nak_sent) engine.count(Count::rx_after_nak);
      if (calls_for_nak(res, ahead, now)) queue_nak(engine, qp, wire::kNakSequence);
      return;
  }
  take_early(engine, qp, packet.psn, now);
}

}  // namespace

void on_request(Engine& engine, QueuePair& qp, const wire::Packet& packet, const Frame& frame,
                Instant now) noexcept {
  Responder& res = qp.res;
  const int32_t ahead = packet.psn - res.expected;
  //= threat:A10 threat:A26 what came before is old for 2^23 PSNs, and cannot be longer
  if (ahead < 0) return on_duplicate(engine, qp, packet, now);
  if (ahead > 0) return on_early(engine, qp, packet, frame, ahead, now);
  const bool asked_for = res.nak_sent;
  if (!take(engine, qp, packet, frame) || res.gap.closed()) return;
  res.gap.close(packet.psn, asked_for, now);
  take_early(engine, qp, packet.psn, now);
}

void on_gap_timer(Engine& engine, QueuePair& qp, Instant now) noexcept {
  Responder& res = qp.res;
  if (res.gap.nak_at > now) {
    if (!res.gap.nak_at.is_never()) engine.arm_timer(qp, res.gap.nak_at);
    return;
  }
  res.gap.nak_at = Instant::never();
  if (!res.nak_sent && !res.gap.since.is_never()) queue_nak(engine, qp, wire::kNakSequence);
}

void note_telemetry(QueuePair& qp, const wire::IntBlock& block, bool marked) noexcept {
  wire::IntBlock& echo = *qp.res.echo;
  const auto marks = static_cast<uint16_t>(echo.marks + (marked ? 1 : 0));
  echo = block;
  echo.flags = wire::kIntEcho;
  echo.marks = marks;
}

}  // namespace weft::roce::rc
