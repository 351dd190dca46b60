// SPDX-License-Identifier: BSD-3-Clause
// The policies. Penalties: 1 for a mark, 4 for a packet that did not arrive (PathRules), 15 for a
// timeout, at most 15; each time that the walk skips the path first, its penalty falls by one.
#include "lib/congestion/path_policy.hpp"

#include <algorithm>
#include <bit>

#include "lib/base/check.hpp"
#include "lib/congestion/path_names.hpp"

namespace weft::congestion {
namespace {

constexpr uint8_t kMostPenalty = 15;
constexpr uint32_t kExplore = 16;                    // picks after a freeze
constexpr Duration kFreeze = Duration::from_ms(10);  // REPS
constexpr int64_t kStayRtts = 5, kStaySpread = 2;    // PLB: RTTs of congestion before a new path

}  // namespace

void PathPolicy::Ring::put(uint16_t entropy) noexcept {
  values_[head_] = entropy;
  head_ = (head_ + 1) % kSize;
  filled_ = std::min(filled_ + 1, kSize);
  unused_ = std::min(unused_ + 1, kSize);
}

uint16_t PathPolicy::Ring::take_oldest_unused() noexcept {
  WEFT_DCHECK(unused_ > 0 && unused_ <= filled_);
  return values_[(head_ + kSize - unused_--) % kSize];
}

// Round robin over all values, used or not.
uint16_t PathPolicy::Ring::cycle() noexcept {
  WEFT_DCHECK(filled_ > 0);
  return values_[turn_++ % filled_];
}

void PathPolicy::start(const PathRules& rules, uint64_t seed) {
  rules_ = rules;
  rules_.count = std::clamp(rules.count, 1u, 65536u);
  random_ = base::Random(seed);
  mask_ = static_cast<uint16_t>(std::bit_floor(rules_.count) - 1);
  upper_ = rules.upper_bits ? static_cast<uint16_t>(random_.next() & ~uint64_t{mask_}) : 0;
  walked_ = 0;
  order_ = static_cast<uint16_t>(random_.next()) & mask_;
  current_ = static_cast<uint16_t>(any() | upper_);
  penalties_.assign(size_t{mask_} + 1, 0);
  WEFT_DCHECK(mask_ < rules_.count && (upper_ & mask_) == 0 && order_ <= mask_);
  ring_.clear();
  queue_.clear();
  if (rules.choice == PathChoice::mixed) queue_.reserve(rules.in_flight);
  explore_ = 0;
  frozen_until_ = leave_at_ = Instant{};
  loaded_ = loaded_path_kind(rules.choice);
  if (loaded_ == nullptr) return;
  state_.assign((loaded_->state_bytes + 7) / 8, 0);
  if (loaded_->start != nullptr)
    loaded_->start(state_.data(), {.count = rules_.count, .seed = seed, .rtt = rules_.rtt});
}

uint16_t PathPolicy::next(Instant now) noexcept {
  if (loaded_ != nullptr)
    return static_cast<uint16_t>(loaded_->next(state_.data(), now) % rules_.count);
  switch (rules_.choice) {
    case PathChoice::single:
      return current_;
    case PathChoice::oblivious:
      return next_of_walk() | upper_;
    case PathChoice::bitmap:
      return next_without_penalty();
    case PathChoice::reps:
      return next_recycled(now);
    case PathChoice::mixed:
      return queue_.empty() ? next_without_penalty() : queue_.pop();
    case PathChoice::plb:
      return next_patient(now);
  }
  return current_;
}

uint16_t PathPolicy::next_of_walk() noexcept {
  const auto index = static_cast<uint16_t>(walked_ ^ order_);
  WEFT_DCHECK(walked_ <= mask_ && index <= mask_);
  if (++walked_ > mask_) {
    walked_ = 0;
    order_ = static_cast<uint16_t>(random_.next()) & mask_;
  }
  return index;
}

// Only the first path of the search loses a penalty. After a whole round the next path is used even
// with a penalty.
uint16_t PathPolicy::next_without_penalty() noexcept {
  uint16_t index = next_of_walk();
  WEFT_DCHECK(index < penalties_.size());
  if (penalties_[index] > 0)
    --penalties_[index];
  else
    return index | upper_;
  for (uint32_t tries = 0; tries <= mask_; ++tries) {
    index = next_of_walk();
    if (penalties_[index] == 0) break;
  }
  return index | upper_;
}

uint16_t PathPolicy::next_recycled(Instant) noexcept {
  if (explore_ > 0) {
    --explore_;
    return any();
  }
  if (frozen_until_.ps != 0) return ring_.empty() ? any() : ring_.cycle();
  return ring_.unused() == 0 ? any() : ring_.take_oldest_unused();
}

uint16_t PathPolicy::next_patient(Instant now) noexcept {
  if (leave_at_.ps == 0 || now < leave_at_) return current_;
  current_ = static_cast<uint16_t>(any() | upper_);
  leave_at_ = Instant{};  // counts from its first feedback
  return current_;
}

void PathPolicy::on_feedback(uint16_t entropy, PathFeedback feedback, Instant now) {
  if (loaded_ != nullptr) {
    if (loaded_->on_feedback != nullptr)
      loaded_->on_feedback(state_.data(), entropy, feedback, now);
    return;
  }
  switch (rules_.choice) {
    case PathChoice::single:
    case PathChoice::oblivious:
      return;
    case PathChoice::reps:
      return recycle(entropy, feedback, now);
    case PathChoice::plb:
      if (entropy == current_ && (feedback == PathFeedback::good || leave_at_.ps == 0))
        leave_at_ = now + rules_.rtt * kStayRtts +
                    Duration{static_cast<int64_t>(
                        random_.below(static_cast<uint64_t>(rules_.rtt.ps * kStaySpread) + 1))};
      return;
    case PathChoice::mixed:
      if (feedback == PathFeedback::good) queue_.push(entropy);
      [[fallthrough]];
    case PathChoice::bitmap: {
      const uint8_t by[] = {0, 1, rules_.not_arrived, kMostPenalty};
      uint8_t& penalty = penalties_[entropy & mask_];
      penalty = static_cast<uint8_t>(
          std::min<uint32_t>(penalty + by[static_cast<size_t>(feedback)], kMostPenalty));
      return;
    }
  }
}

void PathPolicy::recycle(uint16_t entropy, PathFeedback feedback, Instant now) {
  if (feedback == PathFeedback::timed_out && rules_.freezes && frozen_until_.ps == 0 &&
      explore_ == 0)
    frozen_until_ = now + kFreeze;
  if (frozen_until_.ps != 0 && now > frozen_until_) {
    frozen_until_ = Instant{};
    ring_.clear();
    explore_ = kExplore;
  }
  if (feedback == PathFeedback::good) ring_.put(entropy);
}

}  // namespace weft::congestion
