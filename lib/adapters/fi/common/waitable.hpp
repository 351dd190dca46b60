// SPDX-License-Identifier: BSD-3-Clause
// What completion queues, counters and event queues have in common: what a program waits on, who
// sleeps there, and how many objects use it.
#pragma once

#include <rdma/fi_eq.h>

#include <atomic>

#include "lib/adapters/fi/common/calls.hpp"
#include "lib/adapters/fi/common/waiting.hpp"

namespace weft::fi {

// Any thread.
struct Waitable {
  explicit Waitable(fi_wait_obj asked) noexcept
      : wait_obj(asked == FI_WAIT_UNSPEC ? FI_WAIT_FD : asked) {}
  // FI_GETWAIT and FI_GETWAITOBJ of fi_control.
  int control(int command, void* arg) const noexcept;
  // Wakes who sleeps. What has come was stored before, so that either side sees the other.
  void wake() noexcept {
    if (sleeps.load()) waiting.signal();
  }
  // Before a sleep on waiting.fd(): what comes from now on makes it readable. Makes progress.
  void prepare() noexcept;

  const fi_wait_obj wait_obj;
  Waiting waiting;
  std::atomic<int> users{0};        // objects bound to it
  std::atomic<bool> sleeps{false};  // a caller has slept, and may again
};

// The body of the functions that open one: `make()` creates a T, whose parent is `parent`.
template <class T, class Parent, class Fid, class Make>
int open_waitable(fi_wait_obj asked, fi_log_subsys subsystem, const char* call, Parent& parent,
                  Fid** out, Make make) noexcept {
  return guarded([&]() -> int {
    if (asked == FI_WAIT_SET || asked == FI_WAIT_MUTEX_COND) {
      FI_WARN(&provider(), subsystem, "%s: only FI_WAIT_FD can be waited for\n", call);
      return -FI_EOPNOTSUPP;
    }
    T* const object = make();
    if (!object->waiting.usable()) return delete object, -FI_EMFILE;
    parent.retain();
    *out = object;
    return 0;
  });
}

// fi_close of an object that others may use.
template <class T, class Parent>
int close_unused(T& object, Parent& parent) noexcept {
  if (object.users.load() != 0) return -FI_EBUSY;
  delete &object;
  parent.release();
  return 0;
}

}  // namespace weft::fi
