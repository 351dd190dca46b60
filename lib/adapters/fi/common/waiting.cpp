// SPDX-License-Identifier: BSD-3-Clause
// See waiting.hpp.
#include "lib/adapters/fi/common/waiting.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>

namespace weft::fi {

void signal_event(int fd) noexcept {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(fd, &one, sizeof one);
}

void clear_event(int fd) noexcept {
  uint64_t count;
  [[maybe_unused]] const ssize_t taken = read(fd, &count, sizeof count);
}

int64_t clock_ms() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

Waiting::Waiting() noexcept
    : epoll_(epoll_create1(EPOLL_CLOEXEC)), event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!usable()) return;
  epoll_event wants{};
  wants.events = EPOLLIN;
  epoll_ctl(epoll_, EPOLL_CTL_ADD, event_, &wants);
}

Waiting::~Waiting() {
  if (epoll_ >= 0) close(epoll_);
  if (event_ >= 0) close(event_);
}

bool Waiting::add(Progress* source) {
  const std::lock_guard hold(lock_);
  for (Source& known : sources_)
    if (known.source == source) return ++known.users, true;
  sources_.push_back({source, 1});
  epoll_event wants{};
  wants.events = EPOLLIN;
  if (source->fd() >= 0) epoll_ctl(epoll_, EPOLL_CTL_ADD, source->fd(), &wants);
  return true;
}

void Waiting::remove(Progress* source) noexcept {
  const std::lock_guard hold(lock_);
  const auto at = std::find_if(sources_.begin(), sources_.end(),
                               [&](const Source& known) { return known.source == source; });
  if (at == sources_.end() || --at->users != 0) return;
  if (source->fd() >= 0) epoll_ctl(epoll_, EPOLL_CTL_DEL, source->fd(), nullptr);
  sources_.erase(at);
}

void Waiting::progress() noexcept {
  const std::lock_guard hold(lock_);
  for (const Source& known : sources_) known.source->progress();
}

void Waiting::arm() noexcept {
  const std::lock_guard hold(lock_);
  for (const Source& known : sources_) known.source->arm();
}

void Waiting::signal() noexcept { signal_event(event_); }

void Waiting::unsignal() noexcept { clear_event(event_); }

bool Waiting::block(int timeout) const noexcept {
  pollfd one{.fd = epoll_, .events = POLLIN, .revents = 0};
  return poll(&one, 1, timeout) > 0;
}

}  // namespace weft::fi
