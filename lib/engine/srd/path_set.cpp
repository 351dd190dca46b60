// SPDX-License-Identifier: BSD-3-Clause
// See path_set.hpp.
#include "lib/engine/srd/path_set.hpp"

#include <algorithm>

namespace weft::engine::srd {

using congestion::PathFeedback;

namespace {
constexpr uint32_t kProbeUs = 1000;  // until a resting path is tried, the first time
constexpr uint8_t kMostDoublings = 10;
constexpr uint32_t kLookEvery = 64;  // round trips: whether a path has become slow
constexpr uint32_t kSlowFactor = 2;  // times the fastest path, and
constexpr uint32_t kSlowNs = 5000;   // more
constexpr Duration kFirstRtt = Duration::from_us(100);  // until one is measured
}  // namespace

void PathSet::start(PathChoice choice, uint32_t count, uint32_t in_flight, uint64_t seed) {
  choice_ = choice;
  count_ = std::clamp(count, 1u, kMostPaths);
  policy_.start({.choice = choice, .count = count_, .in_flight = in_flight, .rtt = kFirstRtt},
                seed);
  random_ = base::Random(seed ^ 0x9E3779B97F4A7C15);
  resting_ = looked_ = 0;
  slow_ns_ = UINT32_MAX;
  states_.reset(new PathState[count_]);
}

uint8_t PathSet::choose(Instant now) noexcept {
  auto path = static_cast<uint8_t>(policy_.next(now));
  if (choice_ == PathChoice::single || resting_ == 0 || resting_ == count_) return path;
  for (uint32_t tries = 0; tries < 2 * count_ && rests(path); ++tries)
    path = static_cast<uint8_t>(policy_.next(now));
  for (uint32_t tries = 0; tries < count_ && rests(path); ++tries)
    path = static_cast<uint8_t>((path + 1u) % count_);
  return path;
}

uint32_t PathSet::take_probe(Instant now) noexcept {
  if (resting_ == 0 || choice_ == PathChoice::single) return kNone;
  const uint32_t us = us_of(now);
  for (uint32_t i = 0; i < count_; ++i) {
    PathState& state = states_[i];
    if (!state.resting || static_cast<int32_t>(us - state.probe_at_us) < 0) continue;
    state.probe_at_us = us + (kProbeUs << state.probes);
    state.probes = static_cast<uint8_t>(std::min<int>(state.probes + 1, kMostDoublings));
    return i;
  }
  return kNone;
}

uint8_t PathSet::choose_other(uint8_t bad, Instant now) noexcept {
  uint8_t path = choose(now);
  if (choice_ == PathChoice::single) return path;
  for (uint32_t tries = 0; tries < 4 && path == bad; ++tries) path = choose(now);
  if (path != bad || count_ == 1) return path;
  return static_cast<uint8_t>((bad + 1 + random_.below(count_ - 1)) % count_);
}

void PathSet::on_arrival(uint8_t path, uint16_t path_sequence) noexcept {
  PathState& state = states_[path];
  const auto ahead = static_cast<int16_t>(path_sequence - state.acked_sequence);
  if (ahead > 0 || !state.ever_acked) state.acked_sequence = path_sequence;
  state.ever_acked = true;
  if (is_dead(path)) state.rtt_ns = 0;  // of another time
  state.lost = 0;
  if (!rests(path)) wake(path);
}

void PathSet::on_ack(uint8_t path, bool marked, Instant now) noexcept {
  policy_.on_feedback(path, marked ? PathFeedback::marked : PathFeedback::good, now);
}

// Of a slow path only the newest round trip counts: it may be slow no more.
void PathSet::on_rtt(uint8_t path, Duration rtt, Instant now) noexcept {
  PathState& state = states_[path];
  const int64_t old = state.rtt_ns != 0 && !is_slow(path) ? state.rtt_ns : rtt.ns();
  state.rtt_ns =
      static_cast<uint32_t>(std::clamp<int64_t>(old + (rtt.ns() - old) / 8, 1, UINT32_MAX));
  if (++looked_ >= kLookEvery) look_for_slow(now);
}

void PathSet::look_for_slow(Instant now) noexcept {
  looked_ = 0;
  uint32_t fastest = UINT32_MAX;
  for (uint32_t i = 0; i < count_; ++i)
    if (states_[i].rtt_ns != 0 && !is_dead(i)) fastest = std::min(fastest, states_[i].rtt_ns);
  slow_ns_ = static_cast<uint32_t>(
      std::min<uint64_t>(uint64_t{fastest} * kSlowFactor + kSlowNs, UINT32_MAX));
  for (uint32_t i = 0; i < count_; ++i) rests(i) ? rest(i, now) : wake(i);
}

void PathSet::on_loss(uint8_t path, Instant now) noexcept {
  PathState& state = states_[path];
  if (!is_dead(path) && ++state.lost == kDead) rest(path, now);
  policy_.on_feedback(path, PathFeedback::not_arrived, now);
}

void PathSet::on_timeout(uint8_t path, Instant now) noexcept {
  if (!is_dead(path)) {
    states_[path].lost = kDead;
    rest(path, now);
  }
  policy_.on_feedback(path, PathFeedback::timed_out, now);
}

void PathSet::rest(uint32_t path, Instant now) noexcept {
  PathState& state = states_[path];
  if (state.resting) return;
  state.resting = true;
  state.probe_at_us = us_of(now) + kProbeUs;
  ++resting_;
}

void PathSet::wake(uint32_t path) noexcept {
  PathState& state = states_[path];
  state.probes = 0;
  if (!state.resting) return;
  state.resting = false;
  --resting_;
}

uint32_t PathSet::dead() const noexcept {
  uint32_t dead = 0;
  for (uint32_t i = 0; i < count_; ++i) dead += is_dead(i);
  return dead;
}

uint32_t PathSet::slow() const noexcept {
  uint32_t slow = 0;
  for (uint32_t i = 0; i < count_; ++i) slow += is_slow(i);
  return slow;
}

}  // namespace weft::engine::srd
