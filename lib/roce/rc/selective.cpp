// SPDX-License-Identifier: BSD-3-Clause
// Selective repeat (lib/wire/SACK.md) at both ends: the responder reports what it holds ahead of a
// gap and what is lost (recovery/holes.hpp), the requester sends only that again
// (recovery/scoreboard.hpp). The order of execution and of completions is that of go-back-N.
#include <algorithm>
#include <array>

#include "lib/roce/rc/rc.hpp"
#include "lib/wire/emit.hpp"

namespace weft::roce::rc {

namespace {

// A gap of a few packets is the network's. One of this part of what is in flight, or more, is the
// overflow of a buffer: the window is too large.
constexpr uint64_t kOverflow = 8;

bool is_set(std::span<const std::byte> bitmap, uint64_t bit) noexcept {
  return bit / 8 < bitmap.size() && (bitmap[bit / 8] >> (bit % 8) & std::byte{1}) != std::byte{};
}

struct Report {
  uint64_t held_bytes = 0;  // of packets that the peer holds, newly
  uint64_t lost = 0;        // packets to be sent again, newly
};

// Marks PSNs [from, end). `from` is the first bit of the bitmap.
Report mark(const QueuePair& qp, Scoreboard& board, std::span<const std::byte> bitmap,
            uint64_t from, uint64_t end, uint64_t lost_end) noexcept {
  Report report;
  if (from >= end) return report;
  uint32_t index = entry_of(qp, from);
  for (uint64_t psn = from; psn != end; ++psn) {
    while (psn >= qp.sq[index].end_psn()) ++index;
    const SendEntry& entry = qp.sq[index];
    if (!is_set(bitmap, psn - from)) {
      const bool whole = entry.message() || chunk_end(qp, entry, psn) <= end;
      report.lost += psn < lost_end && whole && board.miss(psn, lost_end);
    } else if (!entry.message()) {
      if (!board.held(psn)) board.take(psn, psn + 1);  // its response is outstanding
    } else if (board.hold(psn)) {
      report.held_bytes += cost_of(qp, entry);
    }
  }
  return report;
}

// PSNs that the peer holds, or whose responses are here, leave the window.
void credit_held(EngineState& engine, QueuePair& qp, uint64_t bytes) noexcept {
  WEFT_DCHECK(bytes <= qp.req.in_flight);
  qp.req.in_flight -= bytes;
  qp.destination->window.on_acknowledged(bytes);
  engine.wake_waiting(*qp.destination);
  engine.activate(qp);
}

// After marks were set, because the peer answered.
void use_board(EngineState& engine, QueuePair& qp, Instant now) noexcept {
  Requester& req = qp.req;
  Scoreboard& board = qp.selective->scoreboard;
  if (!req.retry_at.is_never()) end_silence(qp, now);
  board.answered_at = now;
  req.scoreboard = board.empty() ? nullptr : &board;
  if (!qp.probe_at().is_never()) engine.arm_timer(qp, qp.probe_at());
}

}  // namespace

void miss_responses(EngineState& engine, QueuePair& qp, uint64_t end, uint64_t seen_end,
                    Instant now) noexcept {
  Requester& req = qp.req;
  Scoreboard& board = qp.selective->scoreboard;
  end = std::min({end, req.next, req.una + board.window()});
  uint32_t index = qp.sq.head();
  for (uint64_t psn = req.una; psn < end; ++psn) {
    while (psn >= qp.sq[index].end_psn()) ++index;
    if (qp.sq[index].needs_response()) board.miss(psn, seen_end);
  }
  use_board(engine, qp, now);
  engine.activate(qp);
}

void hold_response(EngineState& engine, QueuePair& qp, uint64_t psn, Instant now) noexcept {
  Requester& req = qp.req;
  const SendEntry& entry = qp.sq[entry_of(qp, psn)];
  WEFT_DCHECK(covers(qp, psn) && psn < req.next && entry.needs_response());
  if (!qp.selective->scoreboard.hold(psn)) return;
  use_board(engine, qp, now);
  credit_held(engine, qp, cost_of(qp, entry));
  const uint64_t chunk = (psn - entry.first_psn) & ~uint64_t{req.read_chunk - 1};
  const bool last = psn + 1 == chunk_end(qp, entry, psn);
  miss_responses(engine, qp, last ? psn : entry.first_psn + chunk, psn + 1, now);
}

void on_sack(EngineState& engine, QueuePair& qp, const wire::Packet& packet, const Frame& frame,
             Instant now) noexcept {
  Requester& req = qp.req;
  WEFT_DCHECK(qp.selective != nullptr && packet.info->sack);
  Scoreboard& board = qp.selective->scoreboard;
  const uint64_t expected = widen(Psn{packet.sack().expected}, req.una);
  // What was not sent is not lost: else each copy of the packet would repeat all again.
  const uint64_t lost_end = std::min(widen(Psn{packet.sack().lost_end}, expected), req.next);
  if (expected < req.una) return;  // a newer acknowledgement has overtaken it
  const std::byte* const bytes = frame.more_length != 0 ? frame.more : packet.payload;
  const uint64_t end = std::min(req.next, req.una + board.window());
  const Report report = mark(qp, board, {bytes, packet.payload_length}, expected, end, lost_end);
  use_board(engine, qp, now);
  if (report.lost * kOverflow >= req.next - req.una) qp.destination->window.on_loss();
  if (report.lost != 0 && req.pacer) {
    req.pacer->on_loss(now, congestion::Loss::Reason::gap);
    apply_pacing(engine, qp);
  }
  credit_held(engine, qp, report.held_bytes);
}

Served send_missing(EngineState& engine, QueuePair& qp, FrameBuilder& out, uint32_t quantum,
                    Instant now) noexcept {
  Requester& req = qp.req;
  for (uint32_t sent = 0; req.scoreboard != nullptr && req.scoreboard->has_missing(); ++sent) {
    if (sent == quantum || !out.has_room()) return Served::more;
    if (!qp.limiter.open(now)) {
      wait_to_leave(engine, qp, now);
      break;
    }
    const uint64_t psn = req.scoreboard->first_missing(req.una);
    const uint64_t end = send_again(engine, qp, psn, out, now);
    if (end == psn) {  // a local error, which the cursor meets again
      rewind(engine, qp, psn);
      break;
    }
    req.scoreboard->on_repeated(psn, std::min(end, req.una + req.scoreboard->window()), req.next);
    engine.count(Count::tx_retransmits);
  }
  return Served::idle;
}

void note_early(EngineState& engine, QueuePair& qp, Psn psn, Psn end, Instant now) noexcept {
  Responder& res = qp.res;
  WEFT_DCHECK(qp.selective != nullptr);
  if (res.holes == nullptr) {
    res.holes = &qp.selective->holes;
    res.holes->open(res.expected);
  }
  res.holes->on_early(psn, end, now, res.gap.nak_delay, res.gap.in_order());
  if (!res.holes->advance_at.is_never()) engine.arm_timer(qp, res.holes->advance_at);
  if (!res.nak_outstanding) engine.acks().queue(qp);
}

void settle_holes(QueuePair& qp, Instant now) noexcept {
  Responder& res = qp.res;
  if (qp.can_respond() && res.holes->seen_end - res.expected > 0) {
    if (!res.gap.since.is_never()) return;
    res.gap.open(now);  // what arrived was not kept
    res.gap.nak_at = Instant::never();
    return;
  }
  res.holes = nullptr;
}

void on_holes_timer(EngineState& engine, QueuePair& qp, Instant now) noexcept {
  Responder& res = qp.res;
  if (res.holes->advance(now, res.gap.nak_delay) && !res.nak_outstanding) engine.acks().queue(qp);
  if (!res.holes->advance_at.is_never()) engine.arm_timer(qp, res.holes->advance_at);
}

void emit_sack(EngineState& engine, QueuePair& qp, FrameBuilder& out, Psn psn,
               uint8_t syndrome) noexcept {
  const Responder& res = qp.res;
  WEFT_DCHECK(res.holes != nullptr && res.holes->seen_end - res.expected > 0);
  std::array<std::byte, kMostEarlyWindow / 8> bitmap{};
  const auto seen = static_cast<uint32_t>(res.holes->seen_end - res.expected);
  const uint32_t length = std::min({(seen + 7) / 8, uint32_t{kMostEarlyWindow / 8}, qp.mtu()});
  engine.early_packets().map(res.gap.early, res.expected, {bitmap.data(), length});
  constexpr uint8_t kOpcode = wire::kRcSelectiveAcknowledge;
  std::byte* at = out.start(qp.path, wire::opcode_info(kOpcode).header_length, length);
  at = wire::emit_bth(at,
                      {.opcode = kOpcode, .pad = out.pad_for(length), .dest = qp.peer, .psn = psn},
                      qp.bth_constants);
  at = wire::emit_aeth(at, syndrome, res.msn);
  wire::emit_sack_eth(at, res.expected, res.holes->lost_end);
  out.add_safe_payload(bitmap.data(), length);
  if (qp.telemetry) out.put_telemetry(*res.echo);
  out.finish();
}

}  // namespace weft::roce::rc
