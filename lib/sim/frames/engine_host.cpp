// SPDX-License-Identifier: BSD-3-Clause
// At most one wake-up is valid: an earlier one replaces it, and the event of the later one has a
// stale ticket and is ignored.
#include "lib/sim/frames/engine_host.hpp"

#include <algorithm>

#include "lib/base/check.hpp"

namespace weft::sim {

namespace {
constexpr Duration kRetry = Duration::from_us(1);  // retry interval of a full link or held frame;
                                                   // also the granularity of engine timers
constexpr int kRounds = 4;                         // bursts sent per turn
}  // namespace

EngineHost::EngineHost(EventQueue& events, transport::Port& port, transport::Machine& engine,
                       const EngineHostOptions& options)
    : events_(events),
      port_(port),
      engine_(engine),
      options_(options),
      received_(options.burst),
      sending_(std::max(1u, port.capabilities().burst)) {}

void EngineHost::kick() { wake(events_.now()); }

void EngineHost::wake(Instant at) {
  at = std::max(at, next_turn_);
  if (at >= wakes_at_) return;
  wakes_at_ = at;
  events_.schedule(at, *this, ++ticket_);
}

void EngineHost::on_event(Instant now, uint64_t argument) {
  if (argument == kArrival) return wake(now);
  if (argument != ticket_ || wakes_at_.is_never()) return;
  wakes_at_ = Instant::never();
  take_turn(now);
}

void EngineHost::take_turn(Instant now) {
  WEFT_DCHECK(now >= next_turn_);
  next_turn_ = now + options_.turn;
  engine_.set_time(now);
  const size_t n = port_.receive(received_);
  if (n != 0) {
    engine_.receive({received_.data(), n}, now);
    port_.release({received_.data(), n});
  }
  if (engine_.next_deadline() <= now) engine_.expire(now);
  const bool all_sent = send(now);
  if (after_turn_) after_turn_(now);
  descriptors_.clear();
  if (n == received_.size() || (all_sent && engine_.wants_transmit())) wake(now);
  if (!all_sent || !port_.prepare_wait(descriptors_, !all_sent)) wake(now + kRetry);
  const Instant deadline = engine_.next_deadline();
  if (!deadline.is_never()) wake(std::max(deadline, now + kRetry));
}

// False if the port did not accept every frame.
bool EngineHost::send(Instant now) {
  for (int round = 0; round < kRounds; ++round) {
    if (sending_begin_ == sending_end_) {
      sending_begin_ = 0;
      sending_end_ = engine_.transmit(sending_, now);
      WEFT_DCHECK(sending_end_ <= sending_.size());
      if (sending_end_ == 0) return true;
    }
    sending_begin_ +=
        port_.transmit({sending_.data() + sending_begin_, sending_end_ - sending_begin_});
    if (sending_begin_ != sending_end_) return false;
  }
  return true;
}

}  // namespace weft::sim
