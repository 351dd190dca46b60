// SPDX-License-Identifier: BSD-3-Clause
// While it lives, this thread and those that it starts get no SIGPIPE. virtio_user writes to its
// vhost without caring whether that is still there, and the signal would end the process.
#pragma once

#include <csignal>
#include <ctime>

namespace weft::port::dpdk {

class NoSigpipe {
 public:
  NoSigpipe() noexcept {
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    sigemptyset(&only_);
    sigaddset(&only_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &only_, &before_);
  }
  // One that came meanwhile is forgotten.
  ~NoSigpipe() {
    const timespec now{};
    if (!was_pending_ && sigismember(&before_, SIGPIPE) == 0)
      (void)sigtimedwait(&only_, nullptr, &now);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;

 private:
  sigset_t only_, before_;
  bool was_pending_ = false;
};

}  // namespace weft::port::dpdk
