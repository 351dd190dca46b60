// SPDX-License-Identifier: BSD-3-Clause
// See progress_thread.hpp.
#include "lib/driver/progress_thread.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <ctime>
#include <string>

#include "lib/base/check.hpp"
#include "lib/driver/cq_set.hpp"

namespace weft::driver {

namespace {

constexpr long kIdleCheckNs = 400'000;  // the thread takes over within two of these

void drain(int fd) noexcept {
  uint64_t count;
  if (read(fd, &count, sizeof count) < 0) return;  // was not readable
}

}  // namespace

ProgressThread::~ProgressThread() {
  WEFT_DCHECK(!thread_.joinable());
  if (wake_fd_ >= 0) close(wake_fd_);
}

Result<void> ProgressThread::open() {
  WEFT_DCHECK(wake_fd_ < 0);
  wake_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (wake_fd_ < 0) return Error{Code::no_memory, "no more file descriptors: raise `ulimit -n`"};
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
  if (write(wake_fd_, &one, sizeof one) < 0) armed_.store(true);
  thread_.join();
}

void ProgressThread::abandon() noexcept {
  if (thread_.joinable()) thread_.detach();
}

void ProgressThread::activate(bool over_one_poll) noexcept {
  if (over_one_poll) over_one_poll_.store(true);
  armed_.store(true);
  if (mode_.load() != kThreadActive) signal_fd(wake_fd_);
}

// The application polls: packets shall not wake the thread any more.
void ProgressThread::deactivate() noexcept {
  int active = kThreadActive;
  if (armed_.load(std::memory_order_relaxed) || over_one_poll_.exchange(false)) return;
  if (mode_.compare_exchange_strong(active, kApplicationPolls)) signal_fd(wake_fd_);
}

void ProgressThread::wake() noexcept {
  wake_up_ = Instant{};
  signal_fd(wake_fd_);
}

void ProgressThread::run(const ThreadWork& work, std::vector<pollfd>& descriptors) noexcept {
  const timespec idle_check{0, kIdleCheckNs};
  while (mode_.load() != kStopping) {
    if (mode_.load() == kThreadActive) {
      run_active(work, descriptors);
      continue;
    }
    pollfd wakers[] = {{wake_fd_, POLLIN, 0}, {work.port_event_fd, POLLIN, 0}};
    if (ppoll(wakers, 2, &idle_check, nullptr) > 0) after_sleep(work, wakers);
    if (polled_.exchange(false) && !armed_.load()) continue;
    int idle = kApplicationPolls;
    mode_.compare_exchange_strong(idle, kThreadActive);
  }
}

// One turn, then a sleep until a packet, a deadline or the application's next poll.
void ProgressThread::run_active(const ThreadWork& work, std::vector<pollfd>& descriptors) noexcept {
  descriptors.clear();
  descriptors.push_back({wake_fd_, POLLIN, 0});
  descriptors.push_back({work.port_event_fd, POLLIN, 0});  // ppoll ignores -1
  const Duration limit = work.turn(descriptors);
  if (limit == Duration{}) return;
  WEFT_DCHECK(limit > Duration{} && descriptors.size() >= 2);
  timespec wait{};
  if (limit != kNoLimit) {
    const int64_t ns = limit.ns() + 1;
    wait = {static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
  }
  ppoll(descriptors.data(), descriptors.size(), limit == kNoLimit ? nullptr : &wait, nullptr);
  after_sleep(work, descriptors.data());
  work.finish_sleep();
}

// `wakers`: the descriptors wake_fd_ and port_event_fd, after a ppoll.
void ProgressThread::after_sleep(const ThreadWork& work, const pollfd* wakers) noexcept {
  WEFT_DCHECK(wakers[0].fd == wake_fd_ && wakers[1].fd == work.port_event_fd);
  drain(wake_fd_);
  if (wakers[1].revents != 0) work.take_port_events();
}

}  // namespace weft::driver
