// SPDX-License-Identifier: BSD-3-Clause
// See pacer.hpp.
#include "lib/engine/rc/pacer.hpp"

#include <algorithm>
#include <utility>

namespace weft::engine::rc {

namespace {

// What a packet takes of an Ethernet link besides its payload: preamble, MAC header, IPv4, UDP,
// BTH, ICRC, FCS and gap.
constexpr uint32_t kHeaderBytes = 8 + 14 + 20 + 8 + 12 + 4 + 4 + 12;
// What was known of the path after so long a silence is worth nothing; 32-bit counters may have
// wrapped meanwhile.
constexpr Duration kForgotten = Duration::from_s(1);

constexpr uint16_t kOwnPath = 0xFFFF;  // the path number of our own queue

Duration time_for(uint64_t bytes, double rate) noexcept {
  return Duration{static_cast<int64_t>(static_cast<double>(bytes) * 8e12 / rate)};
}

}  // namespace

Pacer::Pacer(const congestion::Preset& preset, HostQueue& own_queue, Duration quantum,
             std::optional<uint32_t> overhead, bool telemetry)
    : preset_(preset),
      own_queue_(own_queue),
      quantum_(quantum),
      telemetry_(telemetry),
      header_bytes_(
          overhead.value_or(kHeaderBytes + (telemetry ? uint32_t{sizeof(wire::IntBlock)} : 0))) {
  controller_.start(preset);
}

void Pacer::on_sent(Instant now, uint64_t end, uint32_t payload, bool again) noexcept {
  sent_ += payload;
  const uint32_t bytes = payload + header_bytes_;
  next_ = std::max(next_, now - quantum_) + time_for(bytes, controller_.rate());
  controller_.on_sent(preset_, bytes, now);
  if (tail_ - head_ == kMarks) --tail_;  // the newest mark stands for more packets
  mark(tail_++) = {end, sent_, now, again,
                   lives_on_telemetry() ? own_queue_.pass(now, bytes) : congestion::IntHop{}};
}

void Pacer::on_echo(const wire::IntBlock& echo) noexcept {
  static_assert(wire::kIntHops == congestion::kMaxHops);
  ecn_new_ += static_cast<uint16_t>(echo.marks - ecn_seen_);
  ecn_seen_ = echo.marks;
  echoed_ = true;
  path_ = echo.path;
  hop_count_ = echo.count();
  for (size_t i = 0; i < hop_count_; ++i) {
    const wire::IntRecord& r = echo.records[i];
    hops_[i] = {r.rate_mbps, static_cast<uint32_t>(r.time_ns), static_cast<uint32_t>(r.sent_bytes),
                r.queue_bytes};
  }
}

bool Pacer::on_acknowledged(Instant now, uint64_t una, uint32_t packet_bytes) noexcept {
  const bool echoed = std::exchange(echoed_, false);
  const Mark* newest = nullptr;
  for (; head_ != tail_ && mark(head_).end <= una; ++head_) newest = &mark(head_);
  if (newest == nullptr || newest->sent <= acked_) return true;
  heard_at_ = now;
  const double before = controller_.rate();
  congestion::Ack ack;
  ack.now = now;
  ack.rtt = newest->again ? Duration{} : now - newest->at;
  ack.newly_acked = static_cast<uint32_t>(newest->sent - acked_);
  ack.acked = acked_ = newest->sent;
  ack.sent = sent_;
  ack.packet_bytes = packet_bytes;
  ack.retransmitted = newest->again;
  ack.marked = std::exchange(ecn_new_, 0);
  // An acknowledgement without a word of the way (by a READ response) is not blind: others tell.
  const bool blind = lives_on_telemetry() && (echoed ? hop_count_ == 0 : !telemetry_);
  ack.path = blind ? kOwnPath : path_;
  if (blind)
    ack.hops = {&newest->own, 1};
  else if (echoed)
    ack.hops = {hops_.data(), hop_count_};
  controller_.on_ack(preset_, ack);
  changed_rate(before, now);
  return !blind;
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
  if (!telemetry_) ++ecn_new_;
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
  if (now - heard_at_ > kForgotten) return controller_.start(preset_);
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
