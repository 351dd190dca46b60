// SPDX-License-Identifier: BSD-3-Clause
// See path_set.hpp.
#include "lib/engine/srd/path_set.hpp"

#include <algorithm>

namespace weft::engine::srd {

using congestion::PathFeedback;

namespace {
constexpr Duration kProbeEvery = Duration::from_ms(1);  // one packet for dead paths
constexpr Duration kFirstRtt = Duration::from_us(100);  // until one is measured
}  // namespace

void PathSet::start(PathChoice choice, uint32_t count, uint32_t in_flight, uint64_t seed) {
  choice_ = choice;
  count_ = std::clamp(count, 1u, kMostPaths);
  policy_.start({.choice = choice, .count = count_, .in_flight = in_flight, .rtt = kFirstRtt},
                seed);
  random_ = base::Random(seed ^ 0x9E3779B97F4A7C15);
  probe_at_ = Instant{};
  states_.reset(new PathState[count_]);
}

// Dead paths rest, but one packet now and then finds out whether they are back.
bool PathSet::resting(uint8_t path, Instant now) noexcept {
  if (states_[path].lost < kDead) return false;
  if (now < probe_at_) return true;
  probe_at_ = now + kProbeEvery;
  return false;
}

uint8_t PathSet::choose(Instant now) noexcept {
  auto path = static_cast<uint8_t>(policy_.next(now));
  if (choice_ == PathChoice::single) return path;
  for (uint32_t tries = 0; tries < 2 * count_ && resting(path, now); ++tries)
    path = static_cast<uint8_t>(policy_.next(now));
  return path;
}

uint8_t PathSet::choose_other(uint8_t bad, Instant now) noexcept {
  uint8_t path = choose(now);
  if (choice_ == PathChoice::single) return path;
  for (uint32_t tries = 0; tries < 4 && path == bad; ++tries) path = choose(now);
  if (path != bad || count_ == 1) return path;
  return static_cast<uint8_t>((bad + 1 + random_.below(count_ - 1)) % count_);
}

void PathSet::on_ack(uint8_t path, bool marked, Instant now) noexcept {
  states_[path].lost = 0;
  policy_.on_feedback(path, marked ? PathFeedback::marked : PathFeedback::good, now);
}

void PathSet::on_loss(uint8_t path, Instant now) noexcept {
  if (states_[path].lost < kDead) ++states_[path].lost;
  policy_.on_feedback(path, PathFeedback::not_arrived, now);
}

void PathSet::on_timeout(uint8_t path, Instant now) noexcept {
  states_[path].lost = kDead;
  probe_at_ = std::max(probe_at_, now + kProbeEvery);
  policy_.on_feedback(path, PathFeedback::timed_out, now);
}

uint32_t PathSet::dead() const noexcept {
  uint32_t dead = 0;
  for (uint32_t i = 0; i < count_; ++i) dead += states_[i].lost >= kDead;
  return dead;
}

}  // namespace weft::engine::srd
