// SPDX-License-Identifier: BSD-3-Clause
// Scope in which SIGPIPE is blocked for this thread and the threads that it starts: virtio_user
// writes to the socket of a vhost that may have exited.
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
  // Discards a SIGPIPE that became pending meanwhile.
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
