// SPDX-License-Identifier: BSD-3-Clause
// What a port may offer beside prepare_wait(): while a thread sleeps on its descriptors and another
// one polls, frames that the other will find need not wake the sleeper. A port without it wakes it.
#pragma once

namespace weft::transport {

// Called like the members of Port, between prepare_wait() and finish_wait(), in turns.
class SuspendedWait {
 public:
  // Frames need not make the descriptors of prepare_wait() readable from now on.
  virtual void suspend_wait() noexcept = 0;
  // They have to again. False: a frame may have been received already.
  virtual bool resume_wait() noexcept = 0;

 protected:
  ~SuspendedWait() = default;
};

}  // namespace weft::transport
