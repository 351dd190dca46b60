// SPDX-License-Identifier: BSD-3-Clause
// See flushed.hpp.
#include "providers/ibverbs/queue/flushed.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace weft::ibverbs {

Flushed::Flushed(int channel) noexcept : channel_(channel) {
  if (channel < 0) return;
  wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  both_ = epoll_create1(EPOLL_CLOEXEC);
  for (const int fd : {wake_fd_, channel}) {
    epoll_event readable{};
    readable.events = EPOLLIN;
    (void)epoll_ctl(both_, EPOLL_CTL_ADD, fd, &readable);
  }
}

Flushed::~Flushed() {
  if (wake_fd_ >= 0) ::close(wake_fd_);
  if (both_ >= 0) ::close(both_);
}

void Flushed::acknowledge() noexcept {
  uint64_t woken = 0;
  if (wake_fd_ >= 0) (void)!::read(wake_fd_, &woken, sizeof woken);
}

void Flushed::add(const Completion& flushed) noexcept {
  const std::lock_guard lock(mutex_);
  waiting_.push_back(flushed);
  any_ = true;
  const uint64_t one = 1;
  if (armed_.exchange(false) && wake_fd_ >= 0) (void)!::write(wake_fd_, &one, sizeof one);
}

void Flushed::forget(QpNum number) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase_if(waiting_, [number](const Completion& c) { return c.qp == number; });
  any_ = !waiting_.empty();
}

size_t Flushed::take(std::span<Completion> out) noexcept {
  if (!any()) return 0;
  const std::lock_guard lock(mutex_);
  size_t n = 0;
  for (; n < out.size() && !waiting_.empty(); waiting_.pop_front()) out[n++] = waiting_.front();
  any_ = !waiting_.empty();
  return n;
}

}  // namespace weft::ibverbs
