// SPDX-License-Identifier: BSD-3-Clause
// Where and how soon the scheduler runs the progress thread after a wake-up, beside a thread of the
// application that spins. It prefers the core on which a thread ran last; if the application spins
// there, a wake-up from another core takes several times as long as one on the core of the packet's
// sender. And it does not interrupt a running thread for one of equal rank before a slice of some
// milliseconds is over, nor ever a real-time thread that spins for one of its own priority.
#pragma once

#include <sched.h>

namespace weft::driver {

// Of the progress thread, which calls all members.
class ThreadPlacement {
 public:
  // At its start: remembers the cores that it was given, and asks for the shortest slice, which
  // gives it no larger share of a core (sched_setattr(2), since Linux 6.12; no effect before). If
  // it was started by a real-time thread: for the next higher priority, if that is permitted.
  void begin() noexcept;
  // From now on it runs on the cores that it was given, without `core` unless that is the only one.
  // -1: on all of them.
  void avoid(int core) noexcept;
  // Not on the only core, nor with a real-time priority: no other thread would interrupt it.
  bool may_spin() const noexcept { return may_spin_; }

 private:
  cpu_set_t given_{};
  int avoided_ = -1;
  bool may_spin_ = false;
};

}  // namespace weft::driver
