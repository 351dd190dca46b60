// SPDX-License-Identifier: BSD-3-Clause
// Who waits for a receive of one queue pair. A peer whose message found none stands in line; each
// receive that is posted is promised to the first one, who is called. Until it comes, for a short
// time, the receive is kept for it; one that does not come goes to the end of the line, once.
// So that nobody has to ask again and again, and all have the same share.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "lib/base/memory_permitting.hpp"
#include "weft/units.hpp"

namespace weft::srd {

class ReceiveLine {
 public:
  static constexpr uint32_t kMost = 1024;  // peers; more are asked to come again

  struct Waiter {
    uint32_t peer = 0;  // its index
    bool called = false;
  };

  bool nobody() const noexcept { return waiting_.empty(); }
  bool promised() const noexcept { return !promises_.empty(); }
  // Receives that are kept for others than `peer`.
  uint32_t kept_from(uint32_t peer) const noexcept {
    uint32_t kept = 0;
    for (const Promise& p : promises_) kept += p.to.peer != peer;
    return kept;
  }
  uint32_t promises() const noexcept { return static_cast<uint32_t>(promises_.size()); }

  // False: the line is full, or there is no memory for a longer one. A peer stands in it once,
  // whatever it has to send.
  bool join(Waiter waiter) noexcept {
    for (const Waiter& w : waiting_)
      if (w.peer == waiter.peer) return true;
    if (waiting_.size() >= kMost) return false;
    return base::memory_permitting([&] {
      promises_.reserve(
          std::bit_ceil(promises_.size() + waiting_.size() + 1));  // all may be called
      waiting_.push_back(waiter);
    });
  }
  // The first in line has a receive until `until`.
  uint32_t promise(Instant until) {
    const Waiter first = waiting_.front();
    waiting_.erase(waiting_.begin());
    promises_.push_back({first, until});
    return first.peer;
  }
  // A message of `peer` takes a receive.
  void keep(uint32_t peer) noexcept {
    const auto found = std::find_if(promises_.begin(), promises_.end(),
                                    [peer](const Promise& p) { return p.to.peer == peer; });
    if (found != promises_.end()) promises_.erase(found);
  }
  // Promises whose time is over.
  void lapse(Instant now) {
    while (promised() && promises_.front().until <= now) {
      const Waiter late = promises_.front().to;
      promises_.erase(promises_.begin());
      if (!late.called) join({late.peer, true});
    }
  }
  Instant lapses_at() const noexcept {
    return promised() ? promises_.front().until : Instant::never();
  }

 private:
  struct Promise {  // in the order in which they were given
    Waiter to;
    Instant until;
  };
  std::vector<Waiter> waiting_;
  std::vector<Promise> promises_;
};

}  // namespace weft::srd
