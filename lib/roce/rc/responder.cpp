// SPDX-License-Identifier: BSD-3-Clause
// Requests at the responder, one packet at a time: sequence, then legality, then resources, then
// execution (IBTA 9.7.4). Each check returns a Verdict; one switch acts on it. Packets ahead of a
// sequence gap are buffered (state/early_packets.hpp) and executed likewise when it has closed.
#include <algorithm>
#include <optional>

#include "lib/roce/message/shared_receives.hpp"
#include "lib/roce/rc/rc.hpp"

namespace weft::roce::rc {

namespace {

[[gnu::always_inline]] inline Verdict execute(EngineState& engine, QueuePair& qp,
                                              const wire::Packet& packet,
                                              const Frame& frame) noexcept {
  if (packet.info->xrceth && !select_srq(engine, qp, packet.xrceth().srq))
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
                     : wire::kNakInvalidRequest;  // eight bytes are never passed by reference
      break;
    default:
      syndrome = execute_atomic(engine, qp, packet);
      break;
  }
  return syndrome == 0 ? Verdict{} : Verdict::nak(syndrome);
}

void queue_nak(EngineState& engine, QueuePair& qp, uint8_t syndrome) noexcept {
  WEFT_DCHECK(syndrome != 0);
  qp.res.nak_outstanding = true;
  qp.res.nak_queued = true;
  qp.res.nak_syndrome = syndrome;
  qp.res.ack_queued = false;  // the NAK acknowledges what came before it
  engine.activate(qp);
}

// A fatal NAK: the receive in use fails with its own status, the rest is flushed, an asynchronous
// event is raised (//= roce:C-NAK-43). A key that was valid at the start of a WRITE was revoked on
// this side: that is no violation by the peer.
void fail_fatally(EngineState& engine, QueuePair& qp, const Verdict& verdict,
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
  enter_error(engine, qp, Replies::send);  // requests before the invalid one still succeed
  queue_nak(engine, qp, verdict.syndrome());
  engine.raise(access ? EventType::qp_access_error : EventType::qp_request_error, qp.number);
}

// Handles a packet that was not executed.
[[gnu::noinline]] void reject(EngineState& engine, QueuePair& qp, const Verdict& verdict,
                              const wire::OpcodeInfo& info) noexcept {
  switch (verdict.kind()) {
    case Verdict::Kind::accept:
      return;
    case Verdict::Kind::drop:
      return engine.count(Count::rx_pull_failed);
    case Verdict::Kind::rnr:
      return queue_nak(engine, qp, wire::kSyndromeRnr | *qp.attributes.min_rnr_timer);
    case Verdict::Kind::nak:
      return fail_fatally(engine, qp, verdict, info);
  }
}

// One acknowledgement covers all duplicates, so a flood of them (or of forged packets) is
// acknowledged at this interval; the last one that requests an ACK gets it at the end of the
// interval. //= threat:A02
constexpr Duration kDuplicateAckInterval = Duration::from_us(4);

// A packet a little ahead of a gap causes a NAK at once. One far ahead follows a lost READ of many
// PSNs or, more likely, is forged: a NAK would cause a needless go-back-N by the true peer, so it
// is sent only if `expected` does not advance for kStandsStill. A peer that has lost a READ waits
// and sends nothing more, so the timer sends it. //= threat:A02 roce:C-PSN-19
constexpr int32_t kFar = 4096;
constexpr Duration kStandsStill = Duration::from_us(1000);

bool stands_still(const Responder& res) noexcept {
  return !res.far_ahead_since.is_never() && res.far_ahead_expected == res.expected &&
         !res.nak_outstanding;
}

// A packet that cannot be buffered arrived `ahead` PSNs early.
void request_again(EngineState& engine, QueuePair& qp, int32_t ahead, Instant now) noexcept {
  Responder& res = qp.res;
  if (res.nak_outstanding) return engine.count(Count::rx_after_nak);  //= roce:C-NAK-123
  const bool told = qp.selective != nullptr;  // of what is missing, and will send only that
  if (ahead < kFar && !told) return queue_nak(engine, qp, wire::kNakSequence);
  if (stands_still(res)) return;  // the timer is armed
  res.far_ahead_expected = res.expected;
  res.far_ahead_since = now;
  engine.arm_timer(qp, now + kStandsStill);
}

void on_standstill_timer(EngineState& engine, QueuePair& qp, Instant now) noexcept {
  Responder& res = qp.res;
  const Instant nak_at =
      res.far_ahead_since.is_never() ? Instant::never() : res.far_ahead_since + kStandsStill;
  if (!stands_still(res)) {
    res.far_ahead_since = Instant::never();
  } else if (now < nak_at) {
    engine.arm_timer(qp, nak_at);
  } else {
    res.far_ahead_since = Instant::never();
    queue_nak(engine, qp, wire::kNakSequence);
  }
}

void acknowledge_duplicates(EngineState& engine, QueuePair& qp, Instant now) noexcept {
  qp.res.duplicate_ack_owed = false;
  qp.res.next_duplicate_ack_at = now + kDuplicateAckInterval;
  engine.acks().queue(qp);  //= roce:C-DUP-24
}

void on_duplicate(EngineState& engine, QueuePair& qp, const wire::Packet& packet,
                  Instant now) noexcept {
  engine.count(Count::rx_duplicates);
  WEFT_DCHECK(packet.psn - qp.res.expected < 0);
  qp.res.gap.on_duplicate(packet.psn);
  const wire::Operation operation = packet.info->operation;
  if (operation == wire::Operation::send || operation == wire::Operation::write) {
    if (engine.config().habits.acks_each_duplicate) return engine.acks().queue(qp);
    if (now >= qp.res.next_duplicate_ack_at) return acknowledge_duplicates(engine, qp, now);
    if (!packet.ack_request) return;
    qp.res.duplicate_ack_owed = true;
    return engine.arm_timer(qp, qp.res.next_duplicate_ack_at);
  }
  replay(engine, qp, packet, now);
}

uint32_t psn_count(const QueuePair& qp, const wire::Packet& packet) noexcept {
  if (packet.info->operation != wire::Operation::read_request) return 1;
  const uint64_t length = uint32_t{packet.reth().length};
  return std::max<uint32_t>(1, static_cast<uint32_t>((length + qp.mtu() - 1) >> qp.mtu_shift));
}

// An ACK carries the PSN of the last SEND or WRITE, never of a READ or atomic behind it, which
// their responses acknowledge: kernel rxe takes an ACK with the PSN of a READ for its completion,
// without the data. Behind many READs, the PSN in ACKs is kept within half of the number space. //=
// roce:C-DUP-24 roce:C-ACK-31
void limit_ack_distance(Responder& res, const wire::Packet& packet, uint32_t packets) noexcept {
  constexpr uint32_t kFarthest = 1 << 22;  // an older PSN would look like a new one after the wrap
  const uint32_t behind = static_cast<uint32_t>(packet.psn - res.ack_end) & Psn::kMask;
  if (behind + packets > kFarthest) res.ack_end = res.expected + (Psn::kMask + 1 - kFarthest / 2);
}

// Executes the packet at `expected`. False: it was not executed, or the queue pair went to ERR.
// Inline: most packets arrive in order.
[[gnu::always_inline]] inline bool execute_expected(EngineState& engine, QueuePair& qp,
                                                    const wire::Packet& packet,
                                                    const Frame& frame) noexcept {
  Responder& res = qp.res;
  WEFT_DCHECK(packet.psn == res.expected && qp.can_respond());
  const wire::OpcodeInfo& info = *packet.info;
  const bool has_response =
      info.operation != wire::Operation::send && info.operation != wire::Operation::write;
  const uint32_t packets = has_response ? psn_count(qp, packet) : 1;
  if (res.nak_queued) engine.acks().queue(qp);  // the queued NAK would have acknowledged, too
  res.nak_outstanding = res.nak_queued = false;
  const Verdict verdict = execute(engine, qp, packet, frame);
  if (qp.state == QpState::err) return false;  // its CQ overran
  if (verdict.kind() != Verdict::Kind::accept)
    return reject(engine, qp, verdict, *packet.info), false;
  res.expected = res.expected + packets;
  if (has_response) return limit_ack_distance(res, packet, packets), true;
  res.ack_end = res.expected;
  if (info.ends_message()) res.msn = (res.msn + 1) & Psn::kMask;
  if (packet.ack_request) engine.acks().queue(qp);  //= roce:C-ACK-30
  return true;
}

void open_gap(EngineState& engine, QueuePair& qp, bool may_be_forged, Instant now) noexcept {
  Gap& gap = qp.res.gap;
  gap.open(now, may_be_forged);
  if (qp.selective != nullptr)
    gap.nak_at = Instant::never();  // a peer is told by Holes instead
  else
    engine.arm_timer(qp, gap.nak_at);
}

// The missing request `psn` arrived. `after_nak`: possibly because it was sent again.
void close_gap(QueuePair& qp, Psn psn, bool after_nak, Instant now) noexcept {
  const Holes* const holes = qp.res.holes;
  qp.res.gap.close(psn, after_nak || (holes != nullptr && holes->lost(psn)), now);
}

// Executes a packet that was buffered. Not inline: rare.
[[gnu::noinline]] bool execute_buffered(EngineState& engine, QueuePair& qp,
                                        const wire::Packet& packet, const Frame& frame) noexcept {
  return execute_expected(engine, qp, packet, frame);
}

// Executes early packets in order, up to the next gap or an unconfirmed packet. `arrived` is the
// packet that arrived now and needs no confirmation.
void execute_early(EngineState& engine, QueuePair& qp, Psn arrived, Instant now) noexcept {
  EarlyPackets& early = engine.early_packets();
  EarlyList& line = qp.res.gap.early;
  std::optional<Psn> follower;  // selective repeat: the one behind that was executed last
  while (!line.empty()) {
    const Psn psn = early.first_psn(line);
    const int32_t ahead = psn - qp.res.expected;
    if (ahead > 0) {
      if (!qp.res.nak_outstanding && qp.res.gap.since.is_never()) open_gap(engine, qp, false, now);
      return;
    }
    if (ahead == 0) {
      wire::Packet packet;
      const Frame frame = early.first(line);
      (void)wire::parse(frame.bytes, frame.length, 0, frame.more_length, packet);
      const Psn end = psn + psn_count(qp, packet);
      if (psn != arrived && psn != follower && !early.second_within(line, end, kConfirmedBy)) {
        if (!qp.res.nak_outstanding && qp.res.gap.since.is_never()) open_gap(engine, qp, true, now);
        return;
      }
      close_gap(qp, psn, qp.res.nak_outstanding, now);
      const bool executed = execute_buffered(engine, qp, packet, frame);
      if (!executed) {
        if (!line.empty()) early.drop_first(line);
        return;
      }
      if (qp.selective != nullptr) follower = end;
    }
    early.drop_first(line);
  }
}

// Two packets of one PSN were dropped. One may have been reported as held, so the peer has to go
// back. Without selective repeat the gap's NAK is on its way.
void on_conflict(EngineState& engine, QueuePair& qp, Instant now) noexcept {
  Gap& gap = qp.res.gap;
  if (qp.selective == nullptr || gap.since.is_never() || !gap.nak_at.is_never()) return;
  gap.nak_at = now + gap.nak_delay;
  engine.arm_timer(qp, gap.nak_at);
}

// The last packet that left is an RNR NAK for `expected`.
bool waits_for_receive(const Responder& res) noexcept {
  return res.nak_outstanding && !res.nak_queued &&
         (res.nak_syndrome & wire::kSyndromeKindMask) == wire::kSyndromeRnr;
}

// Buffers a packet ahead of a gap; the NAK is delayed while the missing packet may only be late.
// What cannot be buffered must be retransmitted, so the NAK is sent at once. //= roce:C-PSN-19
void on_early(EngineState& engine, QueuePair& qp, const wire::Packet& packet, const Frame& frame,
              int32_t ahead, Instant now) noexcept {
  WEFT_DCHECK(ahead > 0);
  Responder& res = qp.res;
  engine.count(Count::rx_out_of_sequence);
  if (engine.config().habits.naks_behind_rnr && waits_for_receive(res))
    return queue_nak(engine, qp, wire::kNakSequence);
  const uint32_t packets = psn_count(qp, packet);
  const EarlyPackets::Kept kept =
      ahead < res.early_window ? engine.early_packets().keep(res.gap.early, packet.psn, packets,
                                                             frame, engine.icrc_length(*frame.path))
                               : EarlyPackets::Kept::no;
  switch (kept) {
    case EarlyPackets::Kept::yes:
      engine.count(Count::rx_early);
      if (res.gap.since.is_never()) open_gap(engine, qp, false, now);
      break;
    case EarlyPackets::Kept::already:
      engine.count(Count::rx_duplicates);
      break;
    case EarlyPackets::Kept::conflict:
      return on_conflict(engine, qp, now);
    case EarlyPackets::Kept::no:
      if (qp.selective != nullptr && ahead < res.early_window) break;
      return request_again(engine, qp, ahead, now);
  }
  if (qp.selective != nullptr) note_early(engine, qp, packet.psn, packet.psn + packets, now);
  execute_early(engine, qp, packet.psn, now);
  if (res.holes != nullptr) settle_holes(qp, now);
}

}  // namespace

void on_request(EngineState& engine, QueuePair& qp, const wire::Packet& packet, const Frame& frame,
                Instant now) noexcept {
  Responder& res = qp.res;
  const int32_t ahead = packet.psn - res.expected;
  //= threat:A10 threat:A26 a packet counts as a duplicate for 2^23 PSNs, half of the space
  if (ahead < 0) return on_duplicate(engine, qp, packet, now);
  if (ahead > 0) return on_early(engine, qp, packet, frame, ahead, now);
  const bool after_nak = res.nak_outstanding;
  if (!execute_expected(engine, qp, packet, frame) || res.gap.closed()) return;
  // With selective repeat, what was sent again asks for an acknowledgement, as few others do.
  const bool again = after_nak || (qp.selective != nullptr && packet.ack_request);
  close_gap(qp, packet.psn, again, now);
  execute_early(engine, qp, packet.psn, now);
  if (res.holes != nullptr) settle_holes(qp, now);
}

void on_responder_timer(EngineState& engine, QueuePair& qp, Instant now) noexcept {
  Responder& res = qp.res;
  if (res.duplicate_ack_owed) {
    if (now < res.next_duplicate_ack_at)
      engine.arm_timer(qp, res.next_duplicate_ack_at);
    else
      acknowledge_duplicates(engine, qp, now);
  }
  on_standstill_timer(engine, qp, now);
  if (res.holes != nullptr) on_holes_timer(engine, qp, now);
  if (res.gap.nak_at > now) {
    if (!res.gap.nak_at.is_never()) engine.arm_timer(qp, res.gap.nak_at);
    return;
  }
  res.gap.nak_at = Instant::never();
  if (!res.nak_outstanding && !res.gap.since.is_never()) queue_nak(engine, qp, wire::kNakSequence);
}

void note_telemetry(QueuePair& qp, const wire::IntBlock& block, bool marked) noexcept {
  WEFT_DCHECK(qp.telemetry && qp.res.echo != nullptr);
  wire::IntBlock& echo = *qp.res.echo;
  const auto marks = static_cast<uint16_t>(echo.marks + (marked ? 1 : 0));
  echo = block;
  echo.flags = wire::kIntEcho;
  echo.marks = marks;
}

}  // namespace weft::roce::rc
