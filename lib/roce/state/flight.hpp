// SPDX-License-Identifier: BSD-3-Clause
// What left under a controller and has not arrived yet, as far as we know: one mark per packet,
// with when it left and how much had left by then. An acknowledgement stands for all packets before
// a PSN. When there are more packets than marks, the newest mark stands for several.
//
// PSNs are wide here: a 24-bit one means that which is nearest to the newest.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "lib/roce/state/transport_names.hpp"
#include "lib/transport/host_queue.hpp"
#include "weft/types.hpp"
#include "weft/units.hpp"

namespace weft::roce::rc {

class Flight {
 public:
  struct Mark {
    uint64_t end = 0;   // PSN behind the packet
    uint64_t sent = 0;  // payload bytes since the start, this packet included
    Instant at;
    bool again = false;    // sent before: its time tells nothing
    HostQueue::Found own;  // our own queue
  };

  bool empty() const noexcept { return head_ == tail_; }
  uint64_t sent() const noexcept { return sent_; }    // goes back at a rewind
  uint64_t acked() const noexcept { return acked_; }  // at the last mark that was acknowledged
  const Mark& oldest() const noexcept { return marks_[head_ % kMarks]; }

  void add(uint64_t end, uint32_t payload, Instant at, bool again,
           const HostQueue::Found& own) noexcept {
    sent_ += payload;
    newest_ = end;
    furthest_ = std::max(furthest_, end);
    if (tail_ - head_ == kMarks) --tail_;
    mark(tail_++) = {end, sent_, at, again, own};
  }

  // Everything before PSN `end` has arrived: the newest mark of that, or null if it is no news.
  const Mark* acknowledge(uint64_t end, uint32_t* newly) noexcept {
    const Mark* newest = nullptr;
    for (; head_ != tail_ && mark(head_).end <= end; ++head_) newest = &mark(head_);
    if (newest == nullptr || newest->sent <= acked_) return nullptr;
    *newly = static_cast<uint32_t>(newest->sent - acked_);
    acked_ = newest->sent;
    return newest;
  }

  // Everything from PSN `psn` on will be sent again.
  void rewind(uint64_t psn) noexcept {
    while (tail_ != head_ && mark(tail_ - 1).end > psn) --tail_;
    sent_ = tail_ != head_ ? mark(tail_ - 1).sent : acked_;
  }

  // Did what lies before PSN `end` leave already?
  bool repeats(uint64_t end) const noexcept { return end <= furthest_; }
  uint64_t widen(Psn psn) const noexcept {
    const int32_t distance = psn - Psn{static_cast<uint32_t>(newest_) & Psn::kMask};
    return newest_ + static_cast<uint64_t>(static_cast<int64_t>(distance));
  }

 private:
  static constexpr uint32_t kMarks = 256;  // power of two
  Mark& mark(uint32_t index) noexcept { return marks_[index % kMarks]; }

  uint64_t sent_ = 0;
  uint64_t acked_ = 0;
  uint64_t newest_ = uint64_t{1} << 32;  // end of the packet that left last
  uint64_t furthest_ = 0;                // of all that ever left
  uint32_t head_ = 0, tail_ = 0;
  std::array<Mark, kMarks> marks_;
};

}  // namespace weft::roce::rc
