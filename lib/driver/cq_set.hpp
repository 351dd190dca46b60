// SPDX-License-Identifier: BSD-3-Clause
// The completion queues of an engine, as the application sees them (CqHandle), and when their
// descriptors become readable (CqSet): at once, or after the count or period of CqModeration.
#pragma once

#include <atomic>
#include <vector>

#include "lib/driver/lock.hpp"
#include "lib/transport/machine.hpp"

namespace weft::driver {

// Makes an eventfd readable.
void signal_fd(int fd) noexcept;

// The machine's ring, the lock of its consumer, and the descriptor of the completion channel.
struct CqHandle {
  CqHandle(uint32_t capacity, bool timestamps, bool locked);
  ~CqHandle();
  CqHandle(const CqHandle&) = delete;
  CqHandle& operator=(const CqHandle&) = delete;
  transport::CompletionQueue ring;
  Lock consumer;
  int event_fd = -1;  // -1: no more descriptors
};

// Under the driver's lock.
class CqSet {
 public:
  void add(CqHandle* cq);
  void remove(CqHandle* cq) noexcept;
  void moderate(CqHandle& cq, const CqModeration& moderation) noexcept;

  // Signals queues that have fired, and fires those whose moderation period ends by `now`.
  void signal(Instant now) noexcept;
  // The earliest end of a moderation period; never(): no event is held back.
  Instant deadline() const noexcept { return deadline_; }
  // Whether a queue records completion times or is moderated, so that the machine's time has to be
  // current before it completes a request.
  bool needs_time() const noexcept { return needs_time_; }
  // For injected faults: every queue overruns, with an event; and no poll finds a completion from
  // now on, until `held` is false again.
  void overrun(transport::Machine& machine) noexcept;
  void hold(bool held, Instant now) noexcept;
  bool held() const noexcept { return held_.load(std::memory_order_relaxed); }
  // Asserts what the other members rely on.
  void check_invariants() const noexcept;

 private:
  bool any_needs_time() const noexcept;

  std::vector<CqHandle*> queues_;
  bool needs_time_ = false;
  Instant deadline_ = Instant::never();
  std::atomic<bool> held_{false};
};

}  // namespace weft::driver
