// SPDX-License-Identifier: BSD-3-Clause
// See flow.hpp.
#include "lib/srd/state/flow.hpp"

#include <algorithm>
#include <utility>

#include "lib/base/check.hpp"
#include "lib/congestion/rccc.hpp"

namespace weft::srd {

namespace {

// What a packet takes of an Ethernet link besides its payload: preamble, MAC header, IPv4, UDP, FCS
// and gap, and SRD's headers and trailer.
constexpr uint32_t kHeaderBytes = 8 + 14 + 20 + 8 + 4 + 12 + 52 + 4;
constexpr Duration kQuantum = Duration::from_us(10);     // that a delayed flow may catch up on
constexpr Duration kMarkPeriod = Duration::from_us(50);  // marks within it count as one CNP
constexpr int kMostDeadlines = 1000;                     // that are made up for after a pause

}  // namespace

void Flow::start(const FlowRules& rules) {
  *this = Flow{};
  preset_ = rules.preset;
  own_queue_ = rules.own_queue;
  halve_on_loss_ = rules.halve_on_loss;
  packet_overhead_ = rules.packet_overhead;
  mtu_ = rules.mtu;
  window_ = Window::of(rules.absorbed);
  if (preset_ != nullptr) controller_.start(*preset_);
}

uint64_t Flow::on_wire(uint32_t payload) noexcept { return payload + kHeaderBytes; }

uint64_t Flow::window() const noexcept {
  return preset_ != nullptr ? std::min(window_.size, controller_.window()) : window_.size;
}

bool Flow::open(Instant now) const noexcept {
  if (!window_.open()) return false;
  if (preset_ == nullptr) return true;
  return next_ <= now && (allowed_one_ || controller_.credit(*preset_) > 0) &&
         (in_flight_ == 0 || in_flight_ + on_wire(mtu_) <= controller_.window());
}

Instant Flow::deadline() const noexcept {
  return preset_ != nullptr ? controller_.next_deadline() : Instant::never();
}

// The controller's deadline has passed.
void Flow::act(Instant now) noexcept {
  for (int i = 0; i < kMostDeadlines && deadline() <= now; ++i)
    controller_.on_deadline(*preset_, deadline());
  if (deadline() <= now) controller_.start(*preset_);  // its state is out of date
}

void Flow::on_sent(uint32_t payload, Instant now) noexcept {
  window_.on_sent(payload + packet_overhead_);
  const uint64_t bytes = on_wire(payload);
  sent_ += bytes;
  in_flight_ += bytes;
  WEFT_DCHECK(in_flight_ <= sent_);
  allowed_one_ = false;
  if (preset_ == nullptr) return;
  if (own_queue_ != nullptr)
    own_digest_ = own_queue_->pass(now, static_cast<uint32_t>(bytes)).digest;
  if (paced()) {
    const double ps = static_cast<double>(bytes) * 8e12 / controller_.rate();
    next_ = std::max(next_, now - kQuantum) + Duration{static_cast<int64_t>(ps)};
  }
  controller_.on_sent(*preset_, static_cast<uint32_t>(bytes), now);
}

void Flow::on_arrived(uint32_t payload) noexcept {
  WEFT_DCHECK(in_flight_ >= on_wire(payload));
  window_.on_acknowledged(payload + packet_overhead_);
  const uint64_t bytes = on_wire(payload);
  acked_ += bytes;
  in_flight_ -= std::min(in_flight_, bytes);
  newly_acked_ += static_cast<uint32_t>(bytes);
}

void Flow::forget(uint32_t payload) noexcept {
  WEFT_DCHECK(in_flight_ >= on_wire(payload));
  window_.forget(payload + packet_overhead_);
  const uint64_t bytes = on_wire(payload);
  acked_ += bytes;  // else `acked` would never reach `sent` again after a loss
  in_flight_ -= std::min(in_flight_, bytes);
}

void Flow::on_lost(uint32_t payload, congestion::Loss loss) noexcept {
  if (halve_on_loss_) window_.on_loss();
  if (preset_ != nullptr) {
    loss.acked = acked_;
    loss.sent = sent_;
    loss.in_flight = in_flight_;
    loss.bytes = static_cast<uint32_t>(on_wire(payload));
    controller_.on_loss(*preset_, loss);
  }
  forget(payload);
}

bool Flow::on_acknowledgement(const Echo& echo) noexcept {
  const uint32_t newly = std::exchange(newly_acked_, 0);
  if (preset_ == nullptr) return true;
  const bool blind = own_queue_ != nullptr && echo.digest == 0;
  congestion::Ack ack;
  ack.now = echo.now;
  ack.rtt = echo.rtt;
  ack.acked = acked_;
  ack.sent = sent_;
  ack.in_flight = in_flight_;
  ack.newly_acked = newly;
  ack.packet_bytes = mtu_;
  ack.marked = echo.marked;
  ack.path = echo.path;
  ack.digest = blind ? own_digest_ : echo.digest;
  controller_.on_ack(*preset_, ack);
  if (echo.marked == 0 || echo.now < cut_after_) return !blind;
  cut_after_ = echo.now + kMarkPeriod;
  controller_.on_cnp(*preset_, echo.now);
  return !blind;
}

void Flow::on_credit(uint32_t units, Instant now) noexcept {
  if (credited())
    controller_.on_credit(*preset_, {.now = now, .bytes = units * congestion::kCreditUnit});
}

uint32_t Flow::credit_wanted(uint64_t backlog) const noexcept {
  WEFT_DCHECK(credited());
  const int64_t most = congestion::most_credit(*preset_);
  auto bytes = static_cast<int64_t>(std::min(backlog, static_cast<uint64_t>(most)));
  if (controller_.window() != congestion::kNoWindow)
    bytes = std::min(bytes, static_cast<int64_t>(controller_.window() + on_wire(mtu_)));
  bytes -= controller_.credit(*preset_);
  if (bytes <= 0) return 0;
  return static_cast<uint32_t>((bytes + congestion::kCreditUnit - 1) / congestion::kCreditUnit);
}

}  // namespace weft::srd
