// SPDX-License-Identifier: BSD-3-Clause
// The delay of acknowledgements, so that they piggy-back on data of the application or coalesce. An
// acknowledgement is delayed by one turn (call of transmit()). If a single small frame of ours
// leaves meanwhile, it is delayed by a few turns more, since the peer is likely to reply. That
// number adapts: it doubles when the peer sends more although our last message is unacknowledged,
// and halves when the delay expired without a packet. In a request-reply dialogue one
// acknowledgement then covers several messages.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "lib/base/check.hpp"

namespace weft::transport {

// Of one queue pair or peer. Turns are numbered by the engine.
class AckDelay {
 public:
  // One more request is to be acknowledged. `waiting`: an acknowledgement is delayed already.
  void queue(bool waiting, uint32_t turn) noexcept {
    WEFT_DCHECK(turns_ >= 1 && turns_ <= kMaxTurns);
    ++coalesced_;
    if (!waiting || overtaken_) {
      if (waiting) turns_ = std::min<uint8_t>(2 * turns_, kMaxTurns);
      overtaken_ = false;
      due_ = turn + 1;
    }
    if (coalesced_ >= kMaxCoalesced) due_ = turn;
  }
  // `frames` frames of data are sent while an acknowledgement is delayed. True: send it behind
  // them, as the short last frame of the train, or because it covers many requests. A single frame
  // is taken for a message of a dialogue: it is sent alone, and the acknowledgement later.
  bool goes_behind(size_t frames, uint32_t turn) noexcept {
    if (frames != 1 || coalesced_ >= kDialogue) {
      overtaken_ = false;
      return true;
    }
    WEFT_DCHECK(turns_ >= 1 && turns_ <= kMaxTurns);
    due_ = turn + turns_;
    overtaken_ = true;
    return false;
  }
  bool due(uint32_t turn) const noexcept { return static_cast<int32_t>(turn - due_) >= 0; }
  // The turn in which it leaves, unless it changes.
  uint32_t due_turn() const noexcept { return due_; }
  void hasten(uint32_t turn) noexcept { due_ = turn; }
  // The acknowledgement is sent because the delay expired: if data had overtaken it, the delay had
  // no benefit, and the peer may have waited for it.
  void on_due() noexcept {
    if (overtaken_) turns_ = (turns_ + 1) / 2;
  }
  void on_sent() noexcept { coalesced_ = 0; }

 private:
  static constexpr uint32_t kMaxCoalesced = 64;  // requests per acknowledgement
  static constexpr uint32_t kDialogue = 8;       // requests per acknowledgement of a dialogue
  static constexpr uint8_t kMaxTurns = 16;       // limit of turns_

  uint32_t due_ = 0;        // turn (call of transmit()) in which it leaves
  uint32_t coalesced_ = 0;  // requests that it will acknowledge
  bool overtaken_ = false;  // data has left before the delayed acknowledgement
  uint8_t turns_ = 1;       // delay after data has overtaken it
};

}  // namespace weft::transport
