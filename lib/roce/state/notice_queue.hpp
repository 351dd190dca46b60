// SPDX-License-Identifier: BSD-3-Clause
// Queue pairs that have a congestion notification packet (CNP) or a report of READ responses
// (lib/wire/INT.md) to send, in FIFO order. Both leave before data.
#pragma once

#include <utility>

#include "lib/base/check.hpp"
#include "lib/roce/state/queue_pair.hpp"

namespace weft::roce {

class NoticeQueue {
 public:
  bool empty() const noexcept { return queue_.empty(); }
  // A packet arrived with an ECN mark: at most one CNP per `interval`. //= roce:C-CC-101
  void queue_cnp(QueuePair& qp, Instant now, Duration interval) noexcept {
    if (now < qp.next_cnp_at) return;
    qp.next_cnp_at = now + interval;
    qp.res.cnp_queued = true;
    queue_.push(qp);
  }
  // The READ response `psn` arrived, in order or not: reported where telemetry was agreed.
  void queue_report(QueuePair& qp, Psn psn) noexcept {
    if (!qp.telemetry) return;
    qp.res.report_queued = true;
    qp.res.report_psn = psn;
    queue_.push(qp);
  }
  void remove(QueuePair& qp) noexcept { queue_.remove(qp); }

  // Calls send_cnp(qp) or send_report(qp) while has_room().
  template <class HasRoom, class SendCnp, class SendReport>
  void serve(HasRoom has_room, SendCnp send_cnp, SendReport send_report) noexcept {
    while (!queue_.empty() && has_room()) {
      QueuePair& qp = queue_.pop();
      WEFT_DCHECK(!qp.res.report_queued || qp.telemetry);
      if (std::exchange(qp.res.cnp_queued, false)) {
        send_cnp(qp);
      } else if (std::exchange(qp.res.report_queued, false)) {
        send_report(qp);
      }
      if (qp.res.report_queued) queue_.push(qp);
    }
  }

 private:
  base::Line<QueuePair, &QueuePair::notices> queue_;
};

}  // namespace weft::roce
