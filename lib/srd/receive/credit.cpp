// SPDX-License-Identifier: BSD-3-Clause
// Credit from the receiver (rccc): a sender says with each packet how much it would like to send,
// a receiver grants that in turns, at just under the rate of its link. Totals are on the wire, so a
// grant that is lost is made up by the next acknowledgement. Every device grants; whether a sender
// waits for it is the sender's own choice (cc=rccc, cc=nscc+rccc).
#include <algorithm>

#include "lib/base/memory_permitting.hpp"
#include "lib/srd/engine.hpp"

namespace weft::srd {

namespace {

constexpr uint32_t kNone = UINT32_MAX;
constexpr int kMostCounted = 64;               // messages, to find what waits
constexpr int64_t kAhead = 2, kMostOwed = 16;  // where receivers police: of what may be held
constexpr Duration kCaughtUp = Duration::from_us(20);  // grants that were due and not made

}  // namespace

// In all, in units. What waits is counted as far as it can matter.
uint32_t Engine::wish_of(const Sender& tx) const noexcept {
  const Flow& flow = tx.flight->flow;
  uint64_t backlog = 0;
  int counted = 0;
  for (const MessageLine* line : {&tx.urgent[0], &tx.urgent[1], &tx.small, &tx.turns, &tx.bulk})
    for (const Message* m = line->front(); m != nullptr && counted < kMostCounted;
         m = m->line.next, ++counted)
      backlog += mtu_ + m->payload() - m->cursor;
  for (uint16_t at = tx.flight->lost.oldest; at != RecordList::kNone && counted < kMostCounted;
       at = tx.flight->at(at).newer, ++counted)
    backlog += mtu_;
  return tx.granted + (backlog != 0 ? flow.wish(backlog) : 0);
}

// When a sender that may not send now looks again: at its pace, or when it has heard nothing for so
// long that it asks for credit again; never() if what is on the way will bring news.
Instant Engine::opens_at(const Sender& tx, Instant now) const noexcept {
  if (tx.flight->flow.wake_at() > now) return tx.flight->flow.wake_at();
  if (!tx.flight->flow.credited() || !tx.flight->in_flight.empty()) return Instant::never();
  return now + std::max(config_.least_rto, tx.rtt * 2);
}

// Where receivers police, credit is not advice. A sender begins with some before it is granted any,
// and asks when it is out of it, so it may be ahead of its grants by some; but nothing is executed
// of one that is further ahead, and what it sends nevertheless counts too: it gains nothing as long
// as it goes on. //= threat:A16
bool Engine::over_credit(Receiver& rx, const wire::SrdPacket& packet) const noexcept {
  if (packet.opcode == wire::SrdOpcode::fill) return false;
  const int64_t most = config_.credit.most_bytes;
  const bool over = rx.taken > kAhead * most;
  const auto bytes = static_cast<int64_t>(Flow::on_wire(packet.payload_length));
  rx.taken = std::min(rx.taken + bytes, kMostOwed * most);
  return over;
}

// One that asks with an empty packet, or sends again, gets a turn whatever it has: it may not know
// of its last grant. //= threat:A16 nobody gets more than a turn at a time
void Engine::hear_wish(Peer& peer, const wire::SrdPacket& packet, Instant now) noexcept {
  Receiver& rx = peer.rx;
  if (rx.credit_number == kNone) {
    // Without memory it is granted nothing now, and asks again.
    const bool added = base::memory_permitting([&] {
      credited_.resize(std::max(credited_.size(), pacer_.numbers() + 1));
      rx.credit_number = pacer_.add();
    });
    if (!added) return;
    credited_[rx.credit_number] = peer.index;
  }
  // What can be sent in a few round trips, whatever it says.
  const auto most = static_cast<int32_t>(4 * config_.credit.most_bytes / congestion::kCreditUnit);
  const auto ahead = static_cast<int32_t>(packet.wish - rx.granted);
  pacer_.wish(rx.credit_number, rx.granted + static_cast<uint32_t>(std::clamp(ahead, 0, most)));
  if (packet.has(wire::srd_flag::kRetransmission) || packet.opcode == wire::SrdOpcode::fill)
    pacer_.ask(rx.credit_number);
  if (grant_at_.is_never()) grant_at_ = std::max(now, no_grant_before_);
}

void Engine::make_grants(Instant now) noexcept {
  if (grant_at_ > now) return;
  grant_at_ = std::max(grant_at_, now - kCaughtUp);
  while (grant_at_ <= now) {
    const std::optional<congestion::CreditPacer::Grant> grant = pacer_.grant();
    if (!grant) {
      no_grant_before_ = grant_at_;
      grant_at_ = Instant::never();
      return;
    }
    Peer& peer = *peers_[credited_[grant->sender]];
    peer.rx.taken -= int64_t{grant->total - peer.rx.granted} * congestion::kCreditUnit;
    peer.rx.granted = grant->total;
    peer.rx.ack_pending = true;
    queue_ack(peer, now);
    peer.rx.ack_patience.hasten(turn_);
    grant_at_ = grant_at_ + grant->next;
  }
  next_deadline_ = std::min(next_deadline_, grant_at_);
}

// The stream ends, and its totals with it.
void Engine::end_credit(Receiver& rx) noexcept {
  if (rx.credit_number != kNone) pacer_.recycle(rx.credit_number);
  rx.credit_number = kNone;
}

}  // namespace weft::srd
