// SPDX-License-Identifier: BSD-3-Clause
// See cq_set.hpp.
#include "lib/driver/cq_set.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

#include "lib/base/check.hpp"

namespace weft::driver {

void signal_fd(int fd) noexcept {
  WEFT_DCHECK(fd >= 0);
  const uint64_t one = 1;
  if (write(fd, &one, sizeof one) < 0) return;  // the count is full: it is readable already
}

CqHandle::CqHandle(uint32_t capacity, bool timestamps, bool locked)
    : ring(capacity, timestamps),
      consumer(locked),
      event_fd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
CqHandle::~CqHandle() {
  if (event_fd >= 0) close(event_fd);
}

void CqSet::add(CqHandle* cq) {
  WEFT_DCHECK(std::find(queues_.begin(), queues_.end(), cq) == queues_.end());
  queues_.push_back(cq);
  needs_time_ = any_needs_time();
}

void CqSet::remove(CqHandle* cq) noexcept {
  WEFT_DCHECK(std::count(queues_.begin(), queues_.end(), cq) == 1);
  queues_.erase(std::remove(queues_.begin(), queues_.end(), cq), queues_.end());
  needs_time_ = any_needs_time();
}

void CqSet::moderate(CqHandle& cq, const CqModeration& moderation) noexcept {
  cq.ring.moderate(moderation.count, moderation.period);
  needs_time_ = any_needs_time();
  signal(Instant{});
}

void CqSet::signal(Instant now) noexcept {
  deadline_ = Instant::never();
  for (CqHandle* cq : queues_) {
    if (cq->ring.due() <= now) cq->ring.fire();
    if (cq->ring.take_fired()) signal_fd(cq->event_fd);
    deadline_ = std::min(deadline_, cq->ring.due());
  }
  WEFT_DCHECK(deadline_ > now);
}

void CqSet::overrun(transport::Machine& machine) noexcept {
  for (CqHandle* cq : queues_) {
    if (cq->ring.overrun()) continue;
    cq->ring.close();
    machine.raise({.type = EventType::cq_error, .completion_queue = cq->ring.number()});
  }
}

void CqSet::hold(bool held, Instant now) noexcept {
  held_.store(held);
  if (held) return;
  // Armed again after a poll that found nothing.
  for (CqHandle* cq : queues_)
    if (cq->ring.armed() && !cq->ring.empty()) cq->ring.fire();
  signal(now);
}

bool CqSet::any_needs_time() const noexcept {
  return std::any_of(queues_.begin(), queues_.end(), [](const CqHandle* cq) {
    return cq->ring.keeps_times() || cq->ring.moderated();
  });
}

void CqSet::check_invariants() const noexcept {
  WEFT_DCHECK(needs_time_ == any_needs_time());
  for (const CqHandle* cq : queues_) {
    WEFT_DCHECK(cq != nullptr && std::count(queues_.begin(), queues_.end(), cq) == 1);
    WEFT_DCHECK(!cq->ring.has_fired() || cq->ring.due().is_never());
    (void)cq;
  }
}

}  // namespace weft::driver
