// SPDX-License-Identifier: BSD-3-Clause
// Peers that wait for a receive of one queue pair (RNR). A peer whose message found no receive is
// queued; each receive that is posted is reserved for the first peer, which is notified by a
// `ready` packet. The reservation lasts for a short time; a peer that does not use it goes to the
// end of the queue, once. So senders need not retry blindly, and all have the same share.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "lib/base/check.hpp"
#include "lib/base/memory_permitting.hpp"
#include "weft/units.hpp"

namespace weft::srd {

class RnrQueue {
 public:
  static constexpr uint32_t kMost = 1024;  // peers; further ones must retry

  struct Waiter {
    uint32_t peer = 0;      // its index
    bool notified = false;  // once already, and it did not retransmit
  };

  bool empty() const noexcept { return waiting_.empty(); }
  uint32_t waiting() const noexcept { return static_cast<uint32_t>(waiting_.size()); }
  uint32_t reservations() const noexcept { return static_cast<uint32_t>(reservations_.size()); }
  uint32_t reserved_for_others(uint32_t peer) const noexcept {
    uint32_t reserved = 0;
    for (const Reservation& r : reservations_) reserved += r.waiter.peer != peer;
    return reserved;
  }

  // False: the queue is full, or there is no memory. A peer is queued once, whatever it has to
  // send.
  bool join(Waiter waiter) noexcept {
    for (const Waiter& w : waiting_)
      if (w.peer == waiter.peer) return true;
    if (waiting_.size() >= kMost) return false;
    return base::memory_permitting([&] {
      reservations_.reserve(std::bit_ceil(reservations_.size() + waiting_.size() + 1));
      waiting_.push_back(waiter);
    });
  }
  // Reserves a receive for the first peer until `until`, and returns the peer. The queue is not
  // empty.
  uint32_t reserve(Instant until) {
    WEFT_DCHECK(!empty());
    WEFT_DCHECK(reservations_.empty() || reservations_.back().until <= until);
    WEFT_DCHECK(reservations_.size() < reservations_.capacity());
    const Waiter first = waiting_.front();
    waiting_.erase(waiting_.begin());
    reservations_.push_back({first, until});
    return first.peer;
  }
  // A message of `peer` takes a receive: its reservation, if it has one, is used.
  void use(uint32_t peer) noexcept {
    const auto found = std::find_if(reservations_.begin(), reservations_.end(),
                                    [peer](const Reservation& r) { return r.waiter.peer == peer; });
    if (found != reservations_.end()) reservations_.erase(found);
  }
  void expire(Instant now) {
    while (reservations() != 0 && reservations_.front().until <= now) {
      const Waiter late = reservations_.front().waiter;
      reservations_.erase(reservations_.begin());
      if (!late.notified) join({late.peer, true});
    }
  }
  Instant next_expiry() const noexcept {
    return reservations() != 0 ? reservations_.front().until : Instant::never();
  }
  // Asserts that a peer is queued once, and that reservations are ordered and need no memory.
  void check_invariants() const noexcept {
    if constexpr (!base::kChecksInvariants) return;
    WEFT_DCHECK(waiting_.size() <= kMost);
    WEFT_DCHECK(reservations_.capacity() >= reservations_.size() + waiting_.size());
    for (auto w = waiting_.begin(); w != waiting_.end(); ++w)
      WEFT_DCHECK(std::none_of(waiting_.begin(), w,
                               [w](const Waiter& earlier) { return earlier.peer == w->peer; }));
    WEFT_DCHECK(std::is_sorted(
        reservations_.begin(), reservations_.end(),
        [](const Reservation& a, const Reservation& b) { return a.until < b.until; }));
  }

 private:
  struct Reservation {  // ordered by `until`
    Waiter waiter;
    Instant until;
  };
  std::vector<Waiter> waiting_;
  std::vector<Reservation> reservations_;
};

}  // namespace weft::srd
