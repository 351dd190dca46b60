// SPDX-License-Identifier: BSD-3-Clause
// Who tries keys. An RC queue pair ends with the first wrong key that its peer uses, so guessing
// means connecting again and again: a peer whose queue pairs ended that way eight times within a
// second is not connected to for 125 ms, and so with each one more; after a second nothing of it is
// left, however many they were. Only packets in sequence count, so that nobody is accused by a
// stranger who forges his address. //= threat:A04
#pragma once

#include <algorithm>
#include <array>

#include "weft/types.hpp"
#include "weft/units.hpp"

namespace weft::roce {

class Violations {
 public:
  static constexpr uint32_t kMost = 8;  // at once; then one each kForgiven
  static constexpr Duration kForgiven = Duration::from_ms(125);
  static constexpr size_t kPeers = 64;  // the worst of them

  void note(const Gid& peer, Instant now) noexcept {
    Entry* entry = &entries_[0];
    for (Entry& each : entries_) {
      if (each.peer == peer) {
        entry = &each;
        break;
      }
      if (each.forgiven_at < entry->forgiven_at) entry = &each;
    }
    if (entry->peer != peer) *entry = {peer, now};
    entry->forgiven_at =
        std::min(std::max(entry->forgiven_at, now) + kForgiven, now + kForgiven * kMost);
  }
  bool too_many(const Gid& peer, Instant now) const noexcept {
    for (const Entry& entry : entries_)
      if (entry.peer == peer) return entry.forgiven_at > now + kForgiven * (kMost - 1);
    return false;
  }

 private:
  struct Entry {
    Gid peer;
    Instant forgiven_at;  // all of them
  };
  std::array<Entry, kPeers> entries_{};
};

}  // namespace weft::roce
