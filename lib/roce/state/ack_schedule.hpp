// SPDX-License-Identifier: BSD-3-Clause
// Queue pairs whose acknowledgement is delayed, in FIFO order, and the turn in which it leaves. A
// turn is one call of Engine::transmit(). How long an acknowledgement waits for data to piggy-back
// on, AckDelay of each queue pair decides.
#pragma once

#include <cstdint>

#include "lib/base/check.hpp"
#include "lib/roce/state/queue_pair.hpp"

namespace weft::roce {

class AckSchedule {
 public:
  bool empty() const noexcept { return queue_.empty(); }
  uint32_t turn() const noexcept { return turn_; }
  // True if an acknowledgement may be due in this turn.
  bool due() const noexcept {
    return !queue_.empty() && static_cast<int32_t>(turn_ - earliest_) >= 0;
  }
  // True if the last turn ended without room for due acknowledgements: they go before data now.
  bool starved() const noexcept { return starved_; }

  // Requests an acknowledgement, unless a NAK is queued, which acknowledges as much.
  void queue(QueuePair& qp) noexcept {
    Responder& res = qp.res;
    if (res.nak_queued) return;
    res.ack_delay.queue(res.ack_queued, turn_);
    res.ack_queued = true;
    insert(qp);
  }
  // The responses that its queued acknowledgement had to follow have left.
  void resume(QueuePair& qp) noexcept {
    WEFT_DCHECK(qp.res.ack_queued);
    insert(qp);
  }
  // The queued acknowledgement leaves in this turn.
  void expedite(QueuePair& qp) noexcept {
    qp.res.ack_delay.hasten(turn_);
    earliest_ = turn_;
  }
  void remove(QueuePair& qp) noexcept { queue_.remove(qp); }

  // Calls send(qp) for the queue pairs in FIFO order while has_room(), each at most once. If it
  // returns true, the queue pair is queued again, behind the others.
  //= roce:C-ACK-36
  template <class HasRoom, class Send>
  void serve(HasRoom has_room, Send send) noexcept {
    WEFT_DCHECK(!queue_.empty());
    constexpr uint32_t kFar = 1u << 30;
    earliest_ = turn_ + kFar;
    QueuePair* const last = queue_.back();
    while (has_room()) {
      QueuePair& qp = queue_.pop();
      if (send(qp)) insert(qp);
      if (&qp == last) return;
    }
    earliest_ = turn_;  // no room for the rest, which may be due
  }
  void end_turn() noexcept { ++turn_; }
  void end_turn(bool had_room) noexcept {
    starved_ = !had_room;  // else data of others could delay acknowledgements without bound
    ++turn_;
  }

 private:
  void insert(QueuePair& qp) noexcept {
    const uint32_t due = qp.res.ack_delay.due_turn();
    if (queue_.empty() || static_cast<int32_t>(due - earliest_) < 0) earliest_ = due;
    queue_.push(qp);
  }

  base::Line<QueuePair, &QueuePair::ack_link> queue_;
  uint32_t turn_ = 0;
  uint32_t earliest_ = 0;  // no queued acknowledgement is due before this turn
  bool starved_ = false;
};

}  // namespace weft::roce
