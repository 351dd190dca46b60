// SPDX-License-Identifier: BSD-3-Clause
// See path_policy.hpp. Numbers are those of the UEC simulator's policies, as far as it has them.
#include "lib/engine/srd/path_policy.hpp"

#include <algorithm>
#include <bit>

namespace weft::engine::srd {

namespace {
constexpr uint8_t kMarked = 1, kNotArrived = 4, kTimedOut = 15, kMostPenalty = 15;
constexpr Duration kProbeEvery = Duration::from_ms(1);  // one packet for dead paths
}  // namespace

void PathSet::start(PathPolicy policy, uint32_t count, uint64_t seed) {
  policy_ = policy;
  count_ = std::clamp(count, 1u, kMostPaths);
  mask_ = std::bit_floor(count_) - 1;
  random_ = base::Random(seed);
  fixed_ = static_cast<uint8_t>(random_.below(count_));
  order_ = static_cast<uint32_t>(random_.next()) & mask_;
  walked_ = ring_head_ = ring_tail_ = 0;
  probe_at_ = Instant{};
  states_.reset(new PathState[count_]);
}

uint8_t PathSet::next_of_walk() noexcept {
  if (walked_ > mask_) {
    walked_ = 0;
    order_ = static_cast<uint32_t>(random_.next()) & mask_;
  }
  return static_cast<uint8_t>(walked_++ ^ order_);
}

uint8_t PathSet::pick(Instant now) noexcept {
  (void)now;
  switch (policy_) {
    case PathPolicy::single:
      return fixed_;
    case PathPolicy::oblivious:
      return next_of_walk();
    case PathPolicy::reps:
      if (ring_head_ != ring_tail_) return ring_[ring_head_++ % kRing];
      return static_cast<uint8_t>(random_.below(count_));
    case PathPolicy::bitmap:
      break;
  }
  // Only the first path met pays: its penalty wears off by one each time it is passed over.
  bool paid = false;
  for (uint32_t tries = 0; tries <= mask_ + 1; ++tries) {
    const uint8_t path = next_of_walk();
    PathState& state = states_[path];
    if (state.penalty == 0) return path;
    if (!std::exchange(paid, true)) --state.penalty;
  }
  return next_of_walk();
}

// Dead paths rest, but one packet now and then finds out whether they are back.
bool PathSet::resting(uint8_t path, Instant now) noexcept {
  if (states_[path].lost < kDead) return false;
  if (now < probe_at_) return true;
  probe_at_ = now + kProbeEvery;
  return false;
}

uint8_t PathSet::choose(Instant now) noexcept {
  uint8_t path = pick(now);
  if (policy_ == PathPolicy::single) return path;
  for (uint32_t tries = 0; tries < 2 * count_ && resting(path, now); ++tries) path = pick(now);
  return path;
}

uint8_t PathSet::choose_other(uint8_t bad, Instant now) noexcept {
  uint8_t path = choose(now);
  if (policy_ == PathPolicy::single) return path;
  for (uint32_t tries = 0; tries < 4 && path == bad; ++tries) path = choose(now);
  if (path != bad || count_ == 1) return path;
  return static_cast<uint8_t>((bad + 1 + random_.below(count_ - 1)) % count_);
}

void PathSet::on_ack(uint8_t path, bool marked) noexcept {
  PathState& state = states_[path];
  state.lost = 0;
  if (marked) {
    punish(path, kMarked);
    return;
  }
  if (policy_ != PathPolicy::reps) return;
  ring_[ring_tail_++ % kRing] = path;
  if (ring_tail_ - ring_head_ > kRing) ++ring_head_;
}

void PathSet::on_loss(uint8_t path, Instant now) noexcept {
  (void)now;
  if (states_[path].lost < kDead) ++states_[path].lost;
  punish(path, kNotArrived);
}

void PathSet::on_timeout(uint8_t path, Instant now) noexcept {
  states_[path].lost = kDead;
  probe_at_ = std::max(probe_at_, now + kProbeEvery);
  punish(path, kTimedOut);
}

void PathSet::punish(uint8_t path, uint8_t by) noexcept {
  PathState& state = states_[path];
  state.penalty = std::min<uint8_t>(static_cast<uint8_t>(state.penalty + by), kMostPenalty);
}

uint32_t PathSet::dead() const noexcept {
  uint32_t dead = 0;
  for (uint32_t i = 0; i < count_; ++i) dead += states_[i].lost >= kDead;
  return dead;
}

}  // namespace weft::engine::srd
