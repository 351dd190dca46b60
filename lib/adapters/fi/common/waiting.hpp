// SPDX-License-Identifier: BSD-3-Clause
// A descriptor to sleep on: readable when one of its sources is, or when it was signaled. Behind
// FI_WAIT_FD of queues and counters, and behind the calls that block.
#pragma once

#include <cerrno>
#include <cstdint>
#include <mutex>
#include <vector>

#include "lib/adapters/fi/common/progress.hpp"

namespace weft::fi {

// Any thread.
class Waiting {
 public:
  Waiting() noexcept;
  ~Waiting();
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  // False: no descriptors are left.
  bool usable() const noexcept { return epoll_ >= 0 && event_ >= 0; }
  // For poll(2): readable as said above. Owned by this object.
  int fd() const noexcept { return epoll_; }

  // A source is owned by its endpoint, which removes it before it is destroyed. Adding one again
  // counts. False: no memory.
  bool add(Progress* source);
  void remove(Progress* source) noexcept;
  // Calls progress() of all sources.
  void progress() noexcept;
  // Calls arm() of all sources.
  void arm() noexcept;

  // Makes fd() readable until unsignal().
  void signal() noexcept;
  void unsignal() noexcept;

  // Blocks until fd() is readable; `timeout` in milliseconds, negative: without limit. False: the
  // time is over.
  bool block(int timeout) const noexcept;

  // Repeats attempt() until it returns something else than -FI_EAGAIN, or the time is over: then
  // -FI_EAGAIN. Sleeps in between.
  template <class Attempt>
  auto wait(Attempt attempt, int timeout) noexcept -> decltype(attempt());

 private:
  struct Source {
    Progress* source;
    int users;
  };
  int epoll_;
  int event_;
  std::mutex lock_;  // sources_, and held during calls of them
  std::vector<Source> sources_;
};

// Makes an eventfd readable, until the other call.
void signal_event(int fd) noexcept;
void clear_event(int fd) noexcept;

// Milliseconds of the monotonic clock.
int64_t clock_ms() noexcept;

template <class Attempt>
auto Waiting::wait(Attempt attempt, int timeout) noexcept -> decltype(attempt()) {
  const int64_t until = timeout < 0 ? INT64_MAX : clock_ms() + timeout;
  for (;;) {
    auto result = attempt();
    if (result != -EAGAIN) return result;
    arm();
    result = attempt();
    if (result != -EAGAIN) return result;
    const int64_t left = until - clock_ms();
    if (left <= 0) return result;
    block(timeout < 0 ? -1 : static_cast<int>(left));
  }
}

}  // namespace weft::fi
