// SPDX-License-Identifier: BSD-3-Clause
// Credit from the receiver (rccc): a sender requests with each packet how much it would like to
// send, a receiver grants that round-robin, at just under the rate of its link. Totals are on the
// wire, so a lost grant is made up by the next acknowledgement. Every device grants; whether a
// sender waits for credit is the sender's choice (cc=rccc, cc=nscc+rccc).
#include <algorithm>

#include "lib/base/memory_permitting.hpp"
#include "lib/srd/receive/receive.hpp"

namespace weft::srd {

namespace {

constexpr uint32_t kNone = Receiver::kNoCredit;
constexpr int64_t kAhead = 2, kMostUsed = 16;         // with policing: times Rules::most_bytes
constexpr Duration kCatchUp = Duration::from_us(20);  // of grants that were due and not made

}  // namespace

// A sender begins with credit before it is granted any, and requests more when it is out of it, so
// it may be ahead of its grants; but nothing is executed of one that is further ahead, and what it
// sends nevertheless counts too: it gains nothing as long as it goes on. //= threat:A16
bool exceeds_credit(ReceiveContext& ctx, Receiver& rx, const wire::SrdPacket& packet) noexcept {
  if (packet.opcode == wire::SrdOpcode::fill) return false;
  const int64_t most = ctx.config.credit.most_bytes;
  const bool over = rx.credit_used > kAhead * most;
  const auto bytes = static_cast<int64_t>(Flow::on_wire(packet.payload_length));
  rx.credit_used = std::min(rx.credit_used + bytes, kMostUsed * most);
  return over;
}

// A sender that requests credit in a fill or a retransmission gets a grant whatever it has: it may
// not know its last one. //= threat:A16 at most one grant at a time
void on_credit_request(ReceiveContext& ctx, Peer& peer, const wire::SrdPacket& packet,
                       Instant now) noexcept {
  Receiver& rx = peer.rx;
  CreditGrants& credit = ctx.credit;
  if (rx.credit_index == kNone) {
    // Without memory nothing is granted now, and the sender requests it again.
    const bool added = base::memory_permitting([&] {
      credit.peers.resize(std::max(credit.peers.size(), credit.pacer.numbers() + 1));
      rx.credit_index = credit.pacer.add();
    });
    if (!added) return;
    WEFT_DCHECK(rx.credit_index < credit.peers.size());
    credit.peers[rx.credit_index] = peer.index;
  }
  WEFT_DCHECK(credit.peers[rx.credit_index] == peer.index);
  // At most what can be sent in a few round trips, whatever the packet says.
  const auto most =
      static_cast<int32_t>(4 * ctx.config.credit.most_bytes / congestion::kCreditUnit);
  const auto ahead = static_cast<int32_t>(packet.requested_credit - rx.credit_granted);
  credit.pacer.request_credit(
      rx.credit_index, rx.credit_granted + static_cast<uint32_t>(std::clamp(ahead, 0, most)));
  if (packet.has(wire::srd_flag::kRetransmission) || packet.opcode == wire::SrdOpcode::fill)
    credit.pacer.ask(rx.credit_index);
  if (credit.grant_at.is_never()) credit.grant_at = std::max(now, credit.no_grant_before);
}

void grant_credit(ReceiveContext& ctx, Instant now) noexcept {
  CreditGrants& credit = ctx.credit;
  if (credit.grant_at > now) return;
  credit.grant_at = std::max(credit.grant_at, now - kCatchUp);
  while (credit.grant_at <= now) {
    const std::optional<congestion::CreditPacer::Grant> grant = credit.pacer.grant();
    if (!grant) {
      credit.no_grant_before = credit.grant_at;
      credit.grant_at = Instant::never();
      return;
    }
    WEFT_DCHECK(grant->sender < credit.peers.size());
    Peer& peer = ctx.peers[credit.peers[grant->sender]];
    WEFT_DCHECK(peer.rx.known && peer.rx.credit_index == grant->sender);
    peer.rx.credit_used -= int64_t{grant->total - peer.rx.credit_granted} * congestion::kCreditUnit;
    peer.rx.credit_granted = grant->total;
    peer.rx.ack_pending = true;
    queue_ack(ctx, peer, now);
    peer.rx.ack_delay.hasten(ctx.acks.turn);
    credit.grant_at = credit.grant_at + grant->next;
  }
  ctx.schedule(credit.grant_at);
}

// The stream ends, and its totals with it.
void end_credit(ReceiveContext& ctx, Receiver& rx) noexcept {
  if (rx.credit_index != kNone) ctx.credit.pacer.recycle(rx.credit_index);
  rx.credit_index = kNone;
}

}  // namespace weft::srd
