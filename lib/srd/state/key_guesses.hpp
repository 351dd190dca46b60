// SPDX-License-Identifier: BSD-3-Clause
// A peer that names wrong keys. Only packets with our incarnation for it count, so that a third
// party that forges its address cannot slow it down. Programs make a few such mistakes; a guesser
// makes many, and then nothing of it that names a key is looked at until one is forgiven.
// //= threat:A04
#pragma once

#include <algorithm>

#include "weft/units.hpp"

namespace weft::srd {

class KeyGuesses {
 public:
  static constexpr int kMost = 64;  // in a row; then one per kForgiveAfter
  static constexpr Duration kForgiveAfter = Duration::from_ms(10);

  void note(Instant now) noexcept {
    forgiven_at_ =
        std::min(std::max(forgiven_at_, now) + kForgiveAfter, now + kForgiveAfter * kMost);
  }
  bool too_many(Instant now) const noexcept {
    return forgiven_at_ > now + kForgiveAfter * (kMost - 1);
  }

 private:
  Instant forgiven_at_;  // when all are
};

}  // namespace weft::srd
