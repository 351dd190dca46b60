// SPDX-License-Identifier: BSD-3-Clause
// See progress_thread.hpp.
#include "lib/driver/progress_thread.hpp"

#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <new>
#include <string>
#include <utility>

#include "lib/base/check.hpp"
#include "lib/base/clock.hpp"
#include "lib/base/relax.hpp"
#include "lib/driver/cq_set.hpp"

namespace weft::driver {

namespace {

// An application that polls in a loop is seen to poll in so many turns of a spin: one that takes a
// completion and sleeps again, in fewer.
constexpr uint32_t kPollLoop = 4;
// Between two turns of a spin: others take the lock meanwhile.
constexpr int kPauses = 4;

timespec to_timespec(Duration time) noexcept {
  if (time == kNoLimit) return {};
  const int64_t ns = time.ns() + 1;
  return {static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
}

void drain(int fd) noexcept {
  uint64_t count;
  if (read(fd, &count, sizeof count) < 0) return;  // was not readable
}

}  // namespace

ProgressThread::~ProgressThread() {
  WEFT_DCHECK(!thread_.joinable());
  if (wake_fd_ >= 0) close(wake_fd_);
  if (check_fd_ >= 0) close(check_fd_);
}

Result<void> ProgressThread::open() {
  WEFT_DCHECK(wake_fd_ < 0);
  wake_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  check_fd_ = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  if (wake_fd_ < 0 || check_fd_ < 0)
    return Error{Code::no_memory, "no more file descriptors: raise `ulimit -n`"};
  return {};
}

Result<void> ProgressThread::start(ThreadWork work) {
  WEFT_DCHECK(wake_fd_ >= 0 && !thread_.joinable());
  try {
    std::vector<pollfd> descriptors;
    descriptors.reserve(64);  // here, so that the thread allocates nothing in the middle of traffic
    thread_ = std::thread([this, todo = std::move(work), list = std::move(descriptors)]() mutable {
      run(todo, list);
    });
  } catch (const std::exception& e) {
    return Error{Code::no_memory, std::string("cannot start the progress thread: ") + e.what()};
  }
  pthread_setname_np(thread_.native_handle(), "weft-progress");
  return {};
}

void ProgressThread::stop() noexcept {
  if (!thread_.joinable()) return;
  mode_.store(kStopping);
  const uint64_t one = 1;
  if (write(wake_fd_, &one, sizeof one) < 0) return thread_.join();  // it is readable already
  thread_.join();
}

void ProgressThread::abandon() noexcept {
  // Not detach(): the handle may be that of a thread that the child has started since.
  ::new (static_cast<void*>(&thread_)) std::thread;
}

void ProgressThread::activate() noexcept {
  taken_.store(0, std::memory_order_relaxed);
  activated_.store(true);  // with become(): one sees the other
  if (mode_.load() != kThreadActive) signal_fd(wake_fd_);
}

void ProgressThread::wake() noexcept {
  if (wake_up_ == Instant{}) return;  // its next turn is still to come
  wake_up_ = Instant{};
  signal_fd(wake_fd_);
}

void ProgressThread::leave_packets() noexcept {
  taken_.store(0, std::memory_order_relaxed);
  left_.store(true, std::memory_order_relaxed);
  signal_fd(wake_fd_);
}

void ProgressThread::run(const ThreadWork& work, std::vector<pollfd>& descriptors) noexcept {
  placement_.begin();
  for (;;) {
    switch (mode_.load()) {
      case kStopping:
        return work.end_sleep();
      case kThreadActive:
        run_active(work, descriptors);
        break;
      default:
        run_idle(work);
    }
  }
}

// One turn, then a sleep until a packet or a deadline.
void ProgressThread::run_active(const ThreadWork& work, std::vector<pollfd>& descriptors) noexcept {
  descriptors.clear();
  descriptors.push_back({wake_fd_, POLLIN, 0});
  descriptors.push_back({work.port_event_fd, POLLIN, 0});  // ppoll ignores -1
  descriptors.push_back({check_fd_, POLLIN, 0});
  const bool polled = polled_.exchange(false, std::memory_order_relaxed);
  const bool left = left_.exchange(false, std::memory_order_relaxed);
  if (activated_.exchange(false)) {  // the application sleeps between its polls
    policy_.forget_wake_ups();
    placement_.avoid(-1);
  } else if (left) {
    policy_.leave_packets();
    work.end_sleep();
    return become(kApplicationPolls);
  } else if (polled) {
    placement_.avoid(application_core_.load(std::memory_order_relaxed));
  }
  const ThreadWork::Turn turn =
      work.turn(descriptors, polled, std::exchange(check_expired_, false));
  if (polled && policy_.leaves_packets(turn.received)) {
    work.end_sleep();
    return become(kApplicationPolls);
  }
  if (turn.limit == Duration{}) return;
  WEFT_DCHECK(turn.limit > Duration{} && descriptors.size() >= 3);
  if (turn.check && !check_set_) set_check_timer();
  const timespec wait = to_timespec(turn.limit);
  const int ready = ppoll(descriptors.data(), descriptors.size(),
                          turn.limit == kNoLimit ? nullptr : &wait, nullptr);
  if (descriptors[2].revents != 0) {
    drain(check_fd_);
    check_set_ = false;
    check_expired_ = true;
  }
  after_sleep(work, descriptors.data());
  const auto woke = [](const pollfd& one) { return one.revents != 0; };
  if (ready > std::count_if(descriptors.begin(), descriptors.begin() + 3, woke) && may_spin() &&
      spin_policy_.begins())
    spin(work);
}

// Whether the thread alone takes packets: the application does not poll, or is about to sleep.
bool ProgressThread::may_spin() const noexcept {
  return placement_.may_spin() && mode_.load() == kThreadActive && !left_.load() &&
         (!polled_.load(std::memory_order_relaxed) || activated_.load());
}

void ProgressThread::spin(const ThreadWork& work) noexcept {
  const Instant begin = base::wall_now();
  Instant last = begin, now = begin;
  uint32_t polls = 0;  // by the application since the last packet
  // The first packets are those that woke the thread.
  bool first = true, received = false, interrupted = false;
  while (now - last < SpinPolicy::kSpin && now - begin < SpinPolicy::kLongestSpin &&
         mode_.load(std::memory_order_relaxed) == kThreadActive && polls < kPollLoop) {
    if (work.poll()) {
      received = received || !first;
      first = false;
      last = now;
      polls = 0;
    }
    if (polled_.exchange(false, std::memory_order_relaxed)) ++polls;
    for (int pause = 0; pause < kPauses; ++pause) base::relax();
    const Instant before = std::exchange(now, base::wall_now());
    interrupted = interrupted || now - before > SpinPolicy::kInterruption;
  }
  if (polls != 0) polled_.store(true, std::memory_order_relaxed);
  spin_policy_.ended(received, interrupted);
}

void ProgressThread::set_check_timer() noexcept {
  const itimerspec once{{}, to_timespec(kPollCheck)};
  const int failed = timerfd_settime(check_fd_, 0, &once, nullptr);
  WEFT_CHECK(failed == 0);
  check_set_ = true;
}

void ProgressThread::run_idle(const ThreadWork& work) noexcept {
  pollfd wakers[] = {{wake_fd_, POLLIN, 0}, {work.port_event_fd, POLLIN, 0}};
  const timespec wait = to_timespec(policy_.check_after());
  const bool woken = ppoll(wakers, 2, &wait, nullptr) > 0;
  if (woken) after_sleep(work, wakers);
  if (activated_.load()) return become(kThreadActive);
  if (woken) return;
  if (policy_.takes_packets(polled_.exchange(false, std::memory_order_relaxed)))
    return become(kThreadActive);
  work.send_held_posts();
}

// Unless stop() was called.
void ProgressThread::become(int mode) noexcept {
  int other = mode == kThreadActive ? kApplicationPolls : kThreadActive;
  left_.store(false, std::memory_order_relaxed);
  if (!mode_.compare_exchange_strong(other, mode)) return;
  // An activate() that still saw the thread active has not signalled.
  if (mode == kApplicationPolls && activated_.load())
    mode_.compare_exchange_strong(mode, kThreadActive);
}

// `wakers`: the descriptors wake_fd_ and port_event_fd, after a ppoll.
void ProgressThread::after_sleep(const ThreadWork& work, const pollfd* wakers) noexcept {
  WEFT_DCHECK(wakers[0].fd == wake_fd_ && wakers[1].fd == work.port_event_fd);
  drain(wake_fd_);
  if (wakers[1].revents != 0) work.take_port_events();
}

}  // namespace weft::driver
