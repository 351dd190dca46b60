// SPDX-License-Identifier: BSD-3-Clause
// The parked thread: makes progress when the application does not. It alternates between glancing
// at whether anyone polls, and watching the port's descriptors itself.
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <ctime>

#include "lib/base/memory_permitting.hpp"
#include "lib/driver/driver.hpp"

namespace weft::driver {

namespace {

constexpr long kGlanceNs = 400'000;  // a sleeping target is noticed within two of these
// How long it sleeps on what it could note of more descriptors than it has room for.
constexpr Duration kShortSleep = Duration::from_ms(1);

void drain(int fd) noexcept {
  uint64_t count;
  if (read(fd, &count, sizeof count) < 0) return;  // was not readable: fine
}

}  // namespace

Result<void> Driver::start() {
  async_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  wake_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (async_fd_ < 0 || wake_fd_ < 0)
    return Error{Code::no_memory, "no more file descriptors: raise `ulimit -n`"};
  if (!threaded_) return {};
  try {
    std::vector<pollfd> descriptors;
    descriptors.reserve(64);  // here, so that the thread allocates nothing in the middle of traffic
    thread_ = std::thread([this, list = std::move(descriptors)]() mutable { run_thread(list); });
  } catch (const std::exception& e) {
    return Error{Code::no_memory, std::string("cannot start the progress thread: ") + e.what()};
  }
  pthread_setname_np(thread_.native_handle(), "weft-progress");
  return {};
}

Driver::~Driver() {
  if (forked()) {  //= roce:C-EVT-111
    // The thread lives in the parent only, and closing the port would take it from the parent.
    if (thread_.joinable()) thread_.detach();
    (void)port_.release();
  } else if (thread_.joinable()) {
    mode_.store(kStopping);
    const uint64_t one = 1;
    if (write(wake_fd_, &one, sizeof one) < 0) armed_.store(true);
    thread_.join();
  }
  if (async_fd_ >= 0) close(async_fd_);
  if (wake_fd_ >= 0) close(wake_fd_);
}

void Driver::run_thread(std::vector<pollfd>& descriptors) noexcept {
  const timespec glance{0, kGlanceNs};
  while (mode_.load() != kStopping) {
    if (mode_.load() == kThreadWatches) {
      watch(descriptors);
      continue;
    }
    pollfd wakers[] = {{wake_fd_, POLLIN, 0}, {port_->async_event_fd(), POLLIN, 0}};
    if (ppoll(wakers, 2, &glance, nullptr) > 0) wake(wakers);
    if (polled_.exchange(false) && !armed_.load()) continue;
    int polls = kApplicationPolls;
    mode_.compare_exchange_strong(polls, kThreadWatches);
  }
}

// After a sleep on the descriptors of kicks and of news, which come first.
void Driver::wake(const pollfd* wakers) noexcept {
  drain(wake_fd_);
  if (wakers[1].revents == 0) return;
  Holder hold(lock_);
  take_port_events();
}

// One turn, then sleep until a packet, a deadline or the application's return.
void Driver::watch(std::vector<pollfd>& descriptors) noexcept {
  descriptors.clear();
  descriptors.push_back({wake_fd_, POLLIN, 0});
  descriptors.push_back({port_->async_event_fd(), POLLIN, 0});  // -1 is passed over
  lock_.lock();
  armed_.store(false);
  turn();
  const Instant now = clock_.now();
  Instant deadline = next_deadline();
  const bool full = tx_begin_ != tx_end_;
  bool sleep = (!machine_->wants_transmit() || full) && deadline > now;
  const auto prepare = [&] { sleep = sleep && port_->prepare_wait(descriptors, full); };
  if (!base::memory_permitting(prepare)) deadline = std::min(deadline, now + kShortSleep);
  sleeps_until_ = deadline;
  unlock();
  if (!sleep) return;
  timespec wait{};
  if (!deadline.is_never()) {
    const int64_t ns = (deadline - now).ns() + 1;
    wait = {static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
  }
  ppoll(descriptors.data(), descriptors.size(), deadline.is_never() ? nullptr : &wait, nullptr);
  wake(descriptors.data());
  lock_.lock();
  port_->finish_wait();
  unlock();
}

}  // namespace weft::driver
