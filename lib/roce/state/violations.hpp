// SPDX-License-Identifier: BSD-3-Clause
// Peers that guess keys. An RC queue pair ends with the first invalid key that its peer uses, so a
// guesser has to connect again and again: a peer whose queue pairs ended that way eight times
// within a second is refused connections for 125 ms, and again after each further violation; a
// second without violations clears the count. Only packets in sequence count, so that a third party
// that forges the address of a peer cannot have it refused. //= threat:A04
#pragma once

#include <algorithm>
#include <array>

#include "lib/base/check.hpp"
#include "weft/types.hpp"
#include "weft/units.hpp"

namespace weft::roce {

class Violations {
 public:
  static constexpr uint32_t kMost = 8;  // in a row; then one per kForgiveAfter
  static constexpr Duration kForgiveAfter = Duration::from_ms(125);
  static constexpr size_t kPeers = 64;  // that are remembered: those with the most violations

  void note(const Gid& peer, Instant now) noexcept {
    Entry* entry = &entries_[0];
    for (Entry& each : entries_) {
      if (each.peer == peer) {
        entry = &each;
        break;
      }
      if (each.cleared_at < entry->cleared_at) entry = &each;
    }
    if (entry->peer != peer) *entry = {peer, now};
    entry->cleared_at =
        std::min(std::max(entry->cleared_at, now) + kForgiveAfter, now + kForgiveAfter * kMost);
    WEFT_DCHECK(entry->peer == peer && entry->cleared_at > now);
  }
  bool throttled(const Gid& peer, Instant now) const noexcept {
    for (const Entry& entry : entries_)
      if (entry.peer == peer) return entry.cleared_at > now + kForgiveAfter * (kMost - 1);
    return false;
  }

 private:
  struct Entry {
    Gid peer;
    Instant cleared_at;  // when all its violations are forgiven
  };
  std::array<Entry, kPeers> entries_{};
};

}  // namespace weft::roce
