// SPDX-License-Identifier: BSD-3-Clause
// When posted requests are transmitted. A post is a doorbell: they leave inside the call. Requests
// of an application that is known to poll at once are held from the third call after a poll on, and
// leave together, because a train costs the port little more than one frame. An application is
// known to if it has polled within kPrompt of its posts kPromptPolls times in a row; one late poll
// ends that, and the progress thread transmits what is held then within 0.4 ms.
//
// It costs two clock reads for each batch, and one for each further post of an application that is
// not known yet.
#pragma once

#include <cstdint>

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

  // After each call that posted `requests`. True: transmit them now. `at_once`: they must not be
  // held.
  bool on_post(uint32_t requests, bool at_once) noexcept {
    if (posts_++ < kEagerPosts || at_once) return held_ = 0, true;
    if (held_ == 0 && !always_hold_) since_ = clock_.now();
    held_ += requests;
    if (holds_ && held_ < kBatch) return false;
    held_ = 0;
    return true;
  }
  // Before the turn of each poll by the application.
  void on_poll() noexcept {
    if (posts_ > kEagerPosts && !always_hold_) check_prompt();
  }
  // In each turn, which transmits everything.
  void on_turn() noexcept { posts_ = held_ = 0; }
  // True: requests have been held for longer than kPrompt, because no poll has come. Transmit them.
  bool overdue() noexcept {
    if (held_ == 0 || always_hold_ || clock_.now() - since_ <= kPrompt) return false;
    forget();
    held_ = 0;
    return true;
  }

 private:
  static constexpr uint32_t kEagerPosts = 2;  // posts after a poll that are sent at once
  static constexpr uint32_t kBatch = 64;      // later requests leave together, at most this many
  static constexpr uint32_t kPromptPolls = 16;
  static constexpr Duration kPrompt = Duration::from_us(20);

  void check_prompt() noexcept {
    if (holds_ && held_ == 0) return;
    if (clock_.now() - since_ > kPrompt) return forget();
    if (!holds_) holds_ = ++prompt_polls_ == kPromptPolls;
  }
  void forget() noexcept {
    holds_ = false;
    prompt_polls_ = 0;
  }

  const base::Clock& clock_;
  const bool always_hold_;
  bool holds_;
  uint32_t prompt_polls_ = 0;  // in a row, while holds_ is false
  uint32_t posts_ = 0;         // calls since the last turn
  uint32_t held_ = 0;          // requests that were posted since the machine's last transmit()
  Instant since_;              // of the first request held; else of the last post
};

}  // namespace weft::driver
