// SPDX-License-Identifier: BSD-3-Clause
// The thread that makes progress when the application does not. While it is active it sleeps on the
// port's descriptors and runs turns when packets arrive, beside the polls of the application if
// there are any; where it alone takes packets it polls before it sleeps (spin_policy.hpp). While it
// is idle the application polls for packets (wake_policy.hpp). Arming a completion queue makes it
// active at once.
#pragma once

#include <poll.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "lib/driver/spin_policy.hpp"
#include "lib/driver/thread_placement.hpp"
#include "lib/driver/wake_policy.hpp"
#include "weft/result.hpp"
#include "weft/units.hpp"

namespace weft::driver {

// A sleep without a limit.
inline constexpr Duration kNoLimit{INT64_MAX};

// What the thread runs. Each function takes the driver's lock.
struct ThreadWork {
  struct Turn {
    bool received = false;  // it received packets
    Duration limit;         // how long to sleep at most; zero: no sleep
    // The sleep ends within kPollCheck too, by a timer that goes on over several sleeps: to set one
    // for each costs more than all else of a wake-up in a virtual machine.
    bool check = false;
  };
  // Runs a turn and appends the descriptors to sleep on. `polled`: the application has polled since
  // the turn before. `checks`: the timer has ended the sleep.
  std::function<Turn(std::vector<pollfd>& descriptors, bool polled, bool checks)> turn;
  // Ends the sleep and runs a turn, unless the lock is held. False: it received no packets.
  std::function<bool()> poll;
  // After a sleep that no turn follows.
  std::function<void()> end_sleep;
  // While the thread is idle, each time it has looked whether the application polls.
  std::function<void()> send_held_posts;
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

  // Makes the descriptors that wake the thread. Error: no more descriptors.
  Result<void> open();
  // Error: no more threads.
  Result<void> start(ThreadWork work);
  void stop() noexcept;
  // In the child of a fork, which has the object but no thread.
  void abandon() noexcept;

  // True: packets wake the thread. False: the application polls for them.
  bool active() const noexcept { return mode_.load(std::memory_order_relaxed) == kThreadActive; }
  // For each poll of the application.
  void on_poll() noexcept {
    if (polled_.load(std::memory_order_relaxed)) return;
    if (active()) application_core_.store(sched_getcpu(), std::memory_order_relaxed);
    polled_.store(true, std::memory_order_relaxed);
  }
  // Before the application sleeps on a descriptor: the thread becomes active at once.
  void activate() noexcept;

  // The rest is called under the driver's lock. When the thread wakes without being woken.
  void set_wake_up(Instant time) noexcept { wake_up_ = time; }
  Instant wake_up() const noexcept { return wake_up_; }
  // After each poll of the application that found packets while the thread is active.
  void on_packets_taken() noexcept {
    taken_.store(taken_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    if (taken_.load(std::memory_order_relaxed) >= policy_.trial()) leave_packets();
  }
  // For frames that wait, and for a deadline before wake_up().
  void wake() noexcept;

 private:
  void run(const ThreadWork& work, std::vector<pollfd>& descriptors) noexcept;
  void run_active(const ThreadWork& work, std::vector<pollfd>& descriptors) noexcept;
  void run_idle(const ThreadWork& work) noexcept;
  bool may_spin() const noexcept;
  void spin(const ThreadWork& work) noexcept;
  void leave_packets() noexcept;
  void become(int mode) noexcept;
  void after_sleep(const ThreadWork& work, const pollfd* wakers) noexcept;
  void set_check_timer() noexcept;

  enum Mode : int { kApplicationPolls, kThreadActive, kStopping };
  alignas(64) std::atomic<int> mode_{kApplicationPolls};
  std::atomic<bool> polled_{false};        // the application polled since the thread last looked
  std::atomic<bool> activated_{false};     // activate() was called since the thread last looked
  std::atomic<uint32_t> taken_{0};         // polls that found packets
  std::atomic<bool> left_{false};          // the thread is to leave packets to the application
  std::atomic<int> application_core_{-1};  // on which it polled last while the thread was active
  int wake_fd_ = -1;
  int check_fd_ = -1;  // timerfd
  Instant wake_up_;    // under the driver's lock
  // Of the thread.
  WakePolicy policy_;
  SpinPolicy spin_policy_;
  ThreadPlacement placement_;
  bool check_set_ = false, check_expired_ = false;

  std::thread thread_;
};

}  // namespace weft::driver
