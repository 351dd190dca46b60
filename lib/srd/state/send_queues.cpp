// SPDX-License-Identifier: BSD-3-Clause
// See send_queues.hpp.
#include "lib/srd/state/send_queues.hpp"

#include "lib/base/check.hpp"

namespace weft::srd {

namespace {
constexpr uint32_t kSmallPackets = 16;  // a message of more is long
constexpr uint32_t kBulkTurn = 16;      // packets of a long message before the next is served
constexpr uint32_t kUrgentRun = 64;     // packets of urgent messages before one of another
}  // namespace

void SendQueues::push(Message& m, uint32_t mtu) noexcept {
  WEFT_DCHECK(m.state == Message::State::queued && !m.line.listed);
  if (beyond_window(m)) return later.push(m);
  if (m.expects_response() && !m.request.begun) {
    if (reads_begun == kMostReads) return reads.push(m);
    ++reads_begun;
    m.request.begun = true;
  }
  if (m.ordered_add) {
    if (adding != nullptr) return adds.push(m);
    adding = &m;
  }
  const bool is_quick = m.urgency() >= 0 || m.payload_length() <= kSmallPackets * mtu;
  (is_quick ? quick(m) : bulk).push(m);
}

void SendQueues::remove(Message& m) noexcept {
  if (urgent[0].remove(m) || urgent[1].remove(m)) return;
  if (small.remove(m) || later.remove(m) || adds.remove(m) || reads.remove(m)) return;
  if (round_robin.remove(m)) {
    WEFT_DCHECK(round_robin_count > 0);
    --round_robin_count;
    return;
  }
  const bool found = bulk.remove(m);
  WEFT_DCHECK(found || !m.line.listed);
  (void)found;
}

// Urgent messages go first, but at most kUrgentRun packets in a row while other messages wait. Long
// ones alternate with each other and with short ones, so that neither waits for the end of the
// other.
Message* SendQueues::next() noexcept {
  while (round_robin_count < kMostTurns && !bulk.empty()) {
    round_robin.push(bulk.pop());
    ++round_robin_count;
  }
  WEFT_DCHECK((round_robin_count == 0) == round_robin.empty());
  const bool others = !small.empty() || !round_robin.empty();
  if (has_urgent() && (!others || urgent_run < kUrgentRun)) {
    ++urgent_run;
    return urgent[urgent[0].empty()].front();
  }
  urgent_run = 0;
  const bool bulk_first = small_run >= kBulkTurn;
  if (!small.empty() && (round_robin.empty() || !bulk_first)) {
    ++small_run;
    return small.front();
  }
  if (round_robin.empty()) return nullptr;
  if (++round_robin_packets >= kBulkTurn) {
    round_robin_packets = 0;
    small_run = 0;
    round_robin.push(round_robin.pop());
  }
  return round_robin.front();
}

// Messages that come into the window are sent, or, if they were cancelled meanwhile, aborted.
bool SendQueues::end_order(const Message& m, uint32_t mtu) noexcept {
  if (!m.ordered || beyond_window(m)) return false;
  WEFT_DCHECK(!order.has(m.order));
  order.add(m.order);
  while (order.first_is_in()) order.advance();
  bool started = false;
  while (!later.empty() && order.within(later.front()->order)) {
    Message& next = later.pop();
    started = true;
    if (next.state == Message::State::aborting)
      quick(next).push(next);
    else
      push(next, mtu);
  }
  return started;
}

bool SendQueues::end_add(const Message& m, uint32_t mtu) noexcept {
  if (adding != &m) return false;
  WEFT_DCHECK(m.ordered_add);
  adding = nullptr;
  if (adds.empty()) return false;
  push(adds.pop(), mtu);
  return true;
}

bool SendQueues::end_read(Message& m, uint32_t mtu) noexcept {
  if (!m.request.begun) return false;
  WEFT_DCHECK(m.expects_response() && reads_begun > 0 && reads_begun <= kMostReads);
  m.request.begun = false;
  --reads_begun;
  if (reads.empty()) return false;
  push(reads.pop(), mtu);
  return true;
}

uint64_t SendQueues::backlog(uint32_t mtu, int most, int& looked) const noexcept {
  uint64_t bytes = 0;
  for (const MessageLine* line : {&urgent[0], &urgent[1], &small, &round_robin, &bulk})
    for (const Message* m = line->front(); m != nullptr && looked < most;
         m = m->line.next, ++looked) {
      WEFT_DCHECK(m->cursor <= m->payload_length());
      bytes += mtu + m->payload_length() - m->cursor;
    }
  return bytes;
}

void SendQueues::clear() noexcept {
  for (MessageLine& line : urgent) line.clear();
  small.clear();
  round_robin.clear();
  bulk.clear();
  later.clear();
  adds.clear();
  reads.clear();
  reads_begun = 0;
  adding = nullptr;
  order = OrderSet{};
  next_order = 0;
  round_robin_count = 0;
}

}  // namespace weft::srd
