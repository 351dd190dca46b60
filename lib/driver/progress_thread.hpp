// SPDX-License-Identifier: BSD-3-Clause
// The thread that makes progress when the application does not. Every 400 us it looks whether the
// application has polled. If not, or if a completion queue was armed, it takes over: it runs turns
// and sleeps on the port's descriptors between them, until the application polls again.
#pragma once

#include <poll.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "weft/result.hpp"
#include "weft/units.hpp"

namespace weft::driver {

// A sleep without a limit.
inline constexpr Duration kNoLimit{INT64_MAX};

// What the thread runs. Each function takes the driver's lock.
struct ThreadWork {
  // Runs a turn and appends the descriptors to sleep on. Returns how long to sleep at most; zero:
  // no sleep.
  std::function<Duration(std::vector<pollfd>& descriptors)> turn;
  // After each sleep.
  std::function<void()> finish_sleep;
  // When `port_event_fd` was readable.
  std::function<void()> take_port_events;
  int port_event_fd = -1;
};

class ProgressThread {
 public:
  ProgressThread() = default;
  // stop() or abandon() was called, or the thread was never started.
  ~ProgressThread();
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  // Makes the descriptor that wakes the thread. Error: no more descriptors.
  Result<void> open();
  // Error: no more threads.
  Result<void> start(ThreadWork work);
  void stop() noexcept;
  // In the child of a fork, which has the object but no thread.
  void abandon() noexcept;

  // True: the thread runs turns. False: the application polls.
  bool active() const noexcept { return mode_.load(std::memory_order_relaxed) == kThreadActive; }
  // For each poll of the application: the thread stays idle, or becomes idle if it is active.
  void on_poll() noexcept {
    if (!polled_.load(std::memory_order_relaxed)) polled_.store(true, std::memory_order_relaxed);
    if (active()) deactivate();
  }
  // The thread takes over at once. `over_one_poll`: the application's next poll leaves it active.
  void activate(bool over_one_poll) noexcept;

  // The rest is called under the driver's lock. First in each turn of the thread: an activate()
  // from now on is answered by another turn.
  void begin_turn() noexcept { armed_.store(false); }
  // When the thread wakes without being woken.
  void set_wake_up(Instant time) noexcept { wake_up_ = time; }
  Instant wake_up() const noexcept { return wake_up_; }
  // For frames that wait, and for a deadline before wake_up().
  void wake() noexcept;

 private:
  void deactivate() noexcept;
  void run(const ThreadWork& work, std::vector<pollfd>& descriptors) noexcept;
  void run_active(const ThreadWork& work, std::vector<pollfd>& descriptors) noexcept;
  void after_sleep(const ThreadWork& work, const pollfd* wakers) noexcept;

  enum Mode : int { kApplicationPolls, kThreadActive, kStopping };
  alignas(64) std::atomic<int> mode_{kApplicationPolls};
  std::atomic<bool> polled_{false};         // the application polled since the thread last looked
  std::atomic<bool> armed_{false};          // activate() was called since begin_turn()
  std::atomic<bool> over_one_poll_{false};  // the next poll leaves the thread active
  int wake_fd_ = -1;
  Instant wake_up_;  // under the driver's lock
  std::thread thread_;
};

}  // namespace weft::driver
