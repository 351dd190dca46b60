// SPDX-License-Identifier: BSD-3-Clause
// See pacer.hpp.
#include "lib/engine/rc/pacer.hpp"

#include <algorithm>

namespace weft::engine::rc {

namespace {

// What a packet takes of an Ethernet link besides its payload: preamble, MAC header, IPv4, UDP,
// BTH, ICRC, FCS and gap.
constexpr uint32_t kHeaderBytes = 8 + 14 + 20 + 8 + 12 + 4 + 4 + 12;
// A flow that could not send for a while may catch up on this much time: the length of a burst.
constexpr Duration kQuantum = Duration::from_us(10);

Duration time_for(uint64_t bytes, double rate) noexcept {
  return Duration{static_cast<int64_t>(static_cast<double>(bytes) * 8e12 / rate)};
}

}  // namespace

Pacer::Pacer(const congestion::Preset& preset) : preset_(preset) { controller_.start(preset); }

void Pacer::on_sent(Instant now, uint64_t end, uint32_t payload, bool again) noexcept {
  sent_ += payload;
  const uint32_t bytes = payload + kHeaderBytes;
  next_ = std::max(next_, now - kQuantum) + time_for(bytes, controller_.rate());
  controller_.on_sent(preset_, bytes, now);
  if (tail_ - head_ == kMarks) --tail_;  // the newest mark stands for more packets
  mark(tail_++) = {end, sent_, now, again};
}

void Pacer::on_acknowledged(Instant now, uint64_t una, uint32_t packet_bytes) noexcept {
  const Mark* newest = nullptr;
  for (; head_ != tail_ && mark(head_).end <= una; ++head_) newest = &mark(head_);
  if (newest == nullptr || newest->sent <= acked_) return;
  const double before = controller_.rate();
  congestion::Ack ack;
  ack.now = now;
  ack.rtt = newest->again ? Duration{} : now - newest->at;
  ack.newly_acked = static_cast<uint32_t>(newest->sent - acked_);
  ack.acked = acked_ = newest->sent;
  ack.sent = sent_;
  ack.packet_bytes = packet_bytes;
  ack.retransmitted = newest->again;
  controller_.on_ack(preset_, ack);
  changed_rate(before, now);
}

void Pacer::on_rewind(uint64_t psn) noexcept {
  while (tail_ != head_ && mark(tail_ - 1).end > psn) --tail_;
  sent_ = tail_ != head_ ? mark(tail_ - 1).sent : acked_;
}

void Pacer::on_loss(Instant now, congestion::Loss::Reason reason) noexcept {
  const double before = controller_.rate();
  controller_.on_loss(preset_, {.now = now, .acked = acked_, .sent = sent_, .reason = reason});
  changed_rate(before, now);
}

void Pacer::on_cnp(Instant now) noexcept {
  const double before = controller_.rate();
  controller_.on_cnp(preset_, now);
  changed_rate(before, now);
}

void Pacer::on_deadline(Instant now) noexcept {
  if (controller_.next_deadline() > now) return;
  const double before = controller_.rate();
  controller_.on_deadline(preset_, now);
  changed_rate(before, now);
}

void Pacer::on_restart(Instant now) noexcept {
  constexpr int kMost = 1000;  // of DCQCN's timers: some 50 ms
  for (int i = 0; i < kMost; ++i) {
    const Instant deadline = controller_.next_deadline();
    if (deadline > now) return;
    controller_.on_deadline(preset_, deadline);
  }
  controller_.start(preset_);
}

// Kinds that say so apply a new rate to the packet that waits already.
void Pacer::changed_rate(double before, Instant now) noexcept {
  if (!preset_.kind->moves_pending || next_ <= now || controller_.rate() == before) return;
  const double left = static_cast<double>((next_ - now).ps);
  next_ = now + Duration{static_cast<int64_t>(left * before / controller_.rate())};
}

}  // namespace weft::engine::rc
