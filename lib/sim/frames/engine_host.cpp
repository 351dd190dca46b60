// SPDX-License-Identifier: BSD-3-Clause
// At most one wake-up counts: an earlier one replaces it, and the event of the later one finds that
// its ticket is not the last and does nothing.
#include "lib/sim/frames/engine_host.hpp"

#include <algorithm>

namespace weft::sim {

namespace {
constexpr Duration kPatience = Duration::from_us(1);  // until a full link or a held frame is looked
                                                      // at again; also the tick of engine timers
constexpr int kRounds = 4;                            // bursts sent per turn
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
  if (!all_sent || !port_.prepare_wait(descriptors_, !all_sent)) wake(now + kPatience);
  const Instant deadline = engine_.next_deadline();
  if (!deadline.is_never()) wake(std::max(deadline, now + kPatience));
}

// False if the port would not take everything.
bool EngineHost::send(Instant now) {
  for (int round = 0; round < kRounds; ++round) {
    if (sending_begin_ == sending_end_) {
      sending_begin_ = 0;
      sending_end_ = engine_.transmit(sending_, now);
      if (sending_end_ == 0) return true;
    }
    sending_begin_ +=
        port_.transmit({sending_.data() + sending_begin_, sending_end_ - sending_begin_});
    if (sending_begin_ != sending_end_) return false;
  }
  return true;
}

}  // namespace weft::sim
