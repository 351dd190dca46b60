// SPDX-License-Identifier: BSD-3-Clause
// See pacer.hpp.
#include "lib/roce/state/pacer.hpp"

#include <algorithm>
#include <utility>

#include "lib/base/check.hpp"

namespace weft::roce {

namespace {

// Bytes of an Ethernet link that a packet takes besides its payload: preamble, MAC header, IPv4,
// UDP, BTH, ICRC, FCS and interpacket gap.
constexpr uint32_t kHeaderBytes = 8 + 14 + 20 + 8 + 12 + 4 + 4 + 12;
// After so long without an acknowledgement the controller restarts: its state of the path is stale,
// and 32-bit counters of switches may have wrapped.
constexpr Duration kPathMemory = Duration::from_s(1);

constexpr uint16_t kHostPath = 0xFFFF;  // the path number of the queue before our own port

Duration time_for(uint64_t bytes, double rate) noexcept {
  return Duration{static_cast<int64_t>(static_cast<double>(bytes) * 8e12 / rate)};
}

}  // namespace

Pacer::Pacer(const congestion::Preset& preset, HostQueue& host_queue, Duration quantum,
             std::optional<uint32_t> overhead, bool telemetry)
    : preset_(preset),
      host_queue_(host_queue),
      quantum_(quantum),
      telemetry_(telemetry),
      header_bytes_(
          overhead.value_or(kHeaderBytes + (telemetry ? uint32_t{sizeof(wire::IntBlock)} : 0))) {
  controller_.start(preset);
  WEFT_CHECK(controller_.rate() > 0);
}

Instant Pacer::next_send_time(Instant now) noexcept {
  WEFT_DCHECK(!open(now));
  waiting_ = next_ > now;
  if (waiting_) return next_;
  return responses_ && !responses_->empty() ? responses_->oldest().at + response_timeout()
                                            : Instant::never();
}

// Charges a packet of `payload` bytes that leaves now to the rate.
Duration Pacer::charge(Instant now, uint32_t payload) noexcept {
  const Duration late = std::exchange(waiting_, false) ? now - next_ : Duration{-1};
  const uint32_t bytes = payload + header_bytes_;
  WEFT_DCHECK(controller_.rate() > 0 && acked() <= sent());
  next_ = std::max(next_, now - quantum_) + time_for(bytes, controller_.rate());
  controller_.on_sent(preset_, bytes, now);
  return late;
}

HostQueue::Found Pacer::pass_host_queue(Instant now, uint32_t payload) noexcept {
  if (!needs_telemetry()) return {};
  return host_queue_.pass(now, payload + header_bytes_);
}

Duration Pacer::on_sent(Instant now, uint64_t end, uint32_t payload, bool again) noexcept {
  requests_.add(end, payload, now, again, pass_host_queue(now, payload));
  return charge(now, payload);
}

Duration Pacer::on_response_sent(Instant now, Psn end, uint32_t payload) noexcept {
  WEFT_DCHECK(responses_ != nullptr);
  const uint64_t wide = responses_->widen(end);
  responses_->rewind(wide - 1);
  const bool again = responses_->repeats(wide);
  responses_->add(wide, payload, now, again, pass_host_queue(now, payload));
  return charge(now, payload);
}

void Pacer::on_echo(const wire::IntBlock& echo) noexcept {
  static_assert(wire::kIntHops == congestion::kMaxHops);
  // The count of an overtaken acknowledgement is older than ecn_seen_.
  const auto more = static_cast<int16_t>(echo.marks - ecn_seen_);
  if (more > 0) {
    ecn_new_ += static_cast<uint16_t>(more);
    ecn_seen_ = echo.marks;
  }
  echoed_ = true;
  path_ = echo.path;
  digest_ = echo.digest;
  hop_count_ = echo.count();
  WEFT_DCHECK(hop_count_ <= hops_.size());
  for (size_t i = 0; i < hop_count_; ++i) {
    const wire::IntRecord& r = echo.records[i];
    hops_[i] = {r.rate_mbps, static_cast<uint32_t>(r.time_ns), static_cast<uint32_t>(r.sent_bytes),
                r.queue_bytes};
  }
}

bool Pacer::on_acknowledged(Instant now, uint64_t una, uint32_t packet_bytes) noexcept {
  uint32_t newly = 0;
  const Flight::Record* const newest = requests_.acknowledge(una, &newly);
  if (newest == nullptr) return echoed_ = false, true;
  return report(now, *newest, newly, false, packet_bytes);
}

bool Pacer::on_reported(Instant now, Psn end, uint32_t packet_bytes) noexcept {
  uint32_t newly = 0;
  const Flight::Record* const newest =
      responses_ ? responses_->acknowledge(responses_->widen(end), &newly) : nullptr;
  if (newest == nullptr) return echoed_ = false, true;
  return report(now, *newest, newly, false, packet_bytes);
}

// Reports may be lost, the last one too, so a response expires later where they are expected.
Duration Pacer::response_timeout() const noexcept {
  const auto rtt_ps = static_cast<int64_t>(preset_.base_rtt_ns * 1000);
  return Duration{telemetry_ ? 8 * rtt_ps : rtt_ps};
}

void Pacer::expire_responses(Instant now, uint32_t packet_bytes) noexcept {
  if (!responses_) return;
  while (!responses_->empty() && responses_->oldest().at + response_timeout() <= now) {
    uint32_t newly = 0;
    const Flight::Record* const newest = responses_->acknowledge(responses_->oldest().end, &newly);
    if (newest != nullptr && !telemetry_) report(now, *newest, newly, true, packet_bytes);
  }
}

// Reports an acknowledgement to the controller. `assumed`: the packets count as arrived by time.
bool Pacer::report(Instant now, const Flight::Record& newest, uint32_t newly, bool assumed,
                   uint32_t packet_bytes) noexcept {
  const bool echoed = std::exchange(echoed_, false);
  const double before = controller_.rate();
  acked_at_ = now;
  congestion::Ack ack;
  ack.now = now;
  ack.rtt = newest.again || assumed ? Duration{} : now - newest.at;
  ack.newly_acked = newly;
  ack.acked = acked();
  ack.sent = sent();
  ack.packet_bytes = packet_bytes;
  ack.retransmitted = newest.again;
  ack.marked = std::exchange(ecn_new_, 0);
  marked_ += ack.marked;
  if (ack.rtt != Duration{}) rtt_ = ack.rtt;
  // An acknowledgement without telemetry (by a READ response) is not blind: others carry it.
  const bool nothing =
      preset_.kind->signal == congestion::Signal::digest ? digest_ == 0 : hop_count_ == 0;
  const bool blind = needs_telemetry() && (echoed ? nothing : !telemetry_);
  ack.path = blind ? kHostPath : path_;
  if (blind) {
    ack.hops = {&newest.own.hop, 1};
    ack.digest = newest.own.digest;
  } else if (echoed) {
    ack.hops = {hops_.data(), hop_count_};
    ack.digest = digest_;
  }
  WEFT_DCHECK(ack.acked <= ack.sent && ack.rtt.ps >= 0);
  controller_.on_ack(preset_, ack);
  changed_rate(before, now);
  return !blind;
}

void Pacer::on_rewind(uint64_t psn) noexcept { requests_.rewind(psn); }

void Pacer::on_loss(Instant now, congestion::Loss::Reason reason) noexcept {
  const double before = controller_.rate();
  controller_.on_loss(preset_, {.now = now, .acked = acked(), .sent = sent(), .reason = reason});
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
  const bool idle = requests_.empty() && (!responses_ || responses_->empty());
  if (idle && now - acked_at_ > kPathMemory) return controller_.start(preset_);
  constexpr int kMost = 1000;  // expirations of DCQCN's timers: some 50 ms
  for (int i = 0; i < kMost; ++i) {
    const Instant deadline = controller_.next_deadline();
    if (deadline > now) return;
    controller_.on_deadline(preset_, deadline);
  }
  controller_.start(preset_);
}

// Controllers with `moves_pending` apply a new rate to the packet that waits already.
void Pacer::changed_rate(double before, Instant now) noexcept {
  if (!preset_.kind->moves_pending || next_ <= now || controller_.rate() == before) return;
  const double left = static_cast<double>((next_ - now).ps);
  WEFT_DCHECK(controller_.rate() > 0);
  next_ = now + Duration{static_cast<int64_t>(left * before / controller_.rate())};
}

}  // namespace weft::roce
