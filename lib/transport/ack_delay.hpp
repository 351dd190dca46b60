// SPDX-License-Identifier: BSD-3-Clause
// When an acknowledgement leaves that waits for the application to answer first. It stays behind
// for one call of transmit(); if a lone word of ours leaves meanwhile, for a few calls more, while
// the other side thinks. How many, it learns: a peer that says more though our last word has not
// been acknowledged does not wait for that, and gives it more time; where nothing came, it gets
// less. So in a dialogue one acknowledgement stands for several words.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "lib/base/check.hpp"

namespace weft::transport {

class AckPatience {
 public:
  // Something more is to be acknowledged. `waiting`: an acknowledgement waits already.
  void queue(bool waiting, uint32_t turn) noexcept {
    WEFT_DCHECK(turns_ >= 1 && turns_ <= kMostTurns);
    ++answers_;
    if (!waiting || overtaken_) {
      if (waiting) turns_ = std::min<uint8_t>(2 * turns_, kMostTurns);
      overtaken_ = false;
      due_ = turn + 1;
    }
    if (answers_ >= kMostAnswers) due_ = turn;
  }
  // Data of ours left before the waiting acknowledgement, in `frames` frames. True: it goes behind
  // them, since in a train it is the short last frame, or since it stands for much. A lone frame is
  // a word in a dialogue: it leaves as quickly as it can, and the acknowledgement later.
  bool goes_behind(size_t frames, uint32_t turn) noexcept {
    if (frames != 1 || answers_ >= kDialogue) {
      overtaken_ = false;  // it did not wait in vain
      return true;
    }
    WEFT_DCHECK(turns_ >= 1 && turns_ <= kMostTurns);
    due_ = turn + turns_;
    overtaken_ = true;
    return false;
  }
  bool due(uint32_t turn) const noexcept { return static_cast<int32_t>(turn - due_) >= 0; }
  // It may be put off later, or hastened.
  uint32_t due_turn() const noexcept { return due_; }
  void hasten(uint32_t turn) noexcept { due_ = turn; }
  // It left because it was due: if data had overtaken it, it waited in vain, and so may the peer
  // have done.
  void on_due() noexcept {
    if (overtaken_) turns_ = (turns_ + 1) / 2;
  }
  void on_sent() noexcept { answers_ = 0; }

 private:
  static constexpr uint32_t kMostAnswers = 64;  // requests that one acknowledgement answers
  static constexpr uint32_t kDialogue = 8;      // the same where requests and answers alternate
  static constexpr uint8_t kMostTurns = 16;     // that an overtaken one waits

  uint32_t due_ = 0;      // turn (call of transmit()) in which it leaves
  uint32_t answers_ = 0;  // requests that it stands for
  bool overtaken_ = false;
  uint8_t turns_ = 1;  // that an overtaken one waits
};

}  // namespace weft::transport
