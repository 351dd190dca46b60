// SPDX-License-Identifier: BSD-3-Clause
// When posted requests are transmitted. A post is a doorbell: they leave inside the call. Requests
// of an application that is known to poll at once are held from the third call after a poll on, and
// leave together, because a train costs the port little more than one frame. An application is
// known to after kKnown polls within kPrompt of its posts in a row. A late poll counts kLate prompt
// ones off, so that one at which another program had the core does not end it; the progress thread
// transmits within 0.4 ms what is held when no poll comes.
//
// It costs two clock reads for each batch.
#pragma once

#include <algorithm>
#include <cstdint>

#include "lib/base/check.hpp"
#include "lib/base/clock.hpp"
#include "weft/units.hpp"

namespace weft::driver {

// Under the driver's lock.
class PostBatching {
 public:
  // `always_hold`: with single_thread=1 nothing but the application's next call makes progress, so
  // it polls soon.
  PostBatching(const base::Clock& clock, bool always_hold)
      : clock_(clock), always_hold_(always_hold), holds_(always_hold) {}

  // After each call that posted `requests`. False: transmit now.
  bool holds(uint32_t requests) noexcept {
    WEFT_DCHECK(held_ < kBatch && (holds_ || held_ == 0));
    if (posts_++ < kEagerPosts || !holds_) return false;
    if (held_ == 0 && !always_hold_) since_ = clock_.now();
    held_ += requests;
    if (held_ < kBatch) return true;
    held_ = 0;
    return false;
  }
  // They are transmitted now all the same.
  void release() noexcept { held_ = 0; }
  // Before the turn of each poll by the application. `transmitted`: when the machine did so last.
  void on_poll(Instant transmitted) noexcept {
    if (posts_ > kEagerPosts && !always_hold_) check_prompt(transmitted);
  }
  // In each turn, which transmits everything.
  void on_turn() noexcept { posts_ = held_ = 0; }
  // True: requests have been held for longer than kPrompt, because no poll has come. Transmit them.
  bool overdue() noexcept {
    if (held_ == 0 || always_hold_ || clock_.now() - since_ <= kPrompt) return false;
    count_late();
    held_ = 0;
    return true;
  }

 private:
  static constexpr uint32_t kEagerPosts = 2;  // posts after a poll that are sent at once
  static constexpr uint32_t kBatch = 64;      // later requests leave together, at most this many
  static constexpr uint32_t kKnown = 16, kLate = 8;
  static constexpr Duration kPrompt = Duration::from_us(20);

  void check_prompt(Instant transmitted) noexcept {
    WEFT_DCHECK(prompt_polls_ <= kKnown && !always_hold_);
    if (holds_ && held_ == 0) return;
    if (clock_.now() - (holds_ ? since_ : transmitted) > kPrompt) return count_late();
    prompt_polls_ = std::min(prompt_polls_ + 1, kKnown);
    if (prompt_polls_ == kKnown) holds_ = true;
  }
  void count_late() noexcept {
    prompt_polls_ = holds_ && prompt_polls_ > kLate ? prompt_polls_ - kLate : 0;
    if (prompt_polls_ == 0) holds_ = false;
  }

  const base::Clock& clock_;
  const bool always_hold_;
  bool holds_;
  uint32_t prompt_polls_ = 0;  // kKnown at most
  uint32_t posts_ = 0;         // calls since the last turn
  uint32_t held_ = 0;          // requests that were posted since the machine's last transmit()
  Instant since_;              // of the first request held
};

}  // namespace weft::driver
