// SPDX-License-Identifier: BSD-3-Clause
// A memif client whose server has gone comes back to the next one that listens at its socket. The
// driver connects only when a device is started, so it is stopped and started again: on the EAL's
// control thread, where the driver talks to its peers, and never beside a burst.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

namespace weft::port::dpdk {

// Between the control thread, which wants no bursts of a queue for a while, and the thread at a
// time that has them. Nobody waits for the other: a queue whose thread never comes by never agrees.
class Pause {
 public:
  // Before each burst: true, it must be left out.
  bool holds() noexcept {
    const uint32_t asked = asked_.load(std::memory_order_acquire);
    if (asked == 0) [[likely]]
      return false;
    agreed_.store(asked, std::memory_order_release);
    return true;
  }

  // The control thread's. Each `number`, never 0, is for one pause: no answer to an older one
  // counts.
  void ask(uint32_t number) noexcept { asked_.store(number, std::memory_order_release); }
  bool agreed(uint32_t number) const noexcept {
    return agreed_.load(std::memory_order_acquire) == number;
  }
  void end() noexcept { asked_.store(0, std::memory_order_release); }

 private:
  std::atomic<uint32_t> asked_{0}, agreed_{0};
};

class Device;

class MemifReturn {
 public:
  // Of `device`, a client of `socket`, which is started. Looks after it on the control thread until
  // its link is up, and again from wake() on. Destroyed there too.
  MemifReturn(const Device& device, std::string socket);
  ~MemifReturn();
  MemifReturn(const MemifReturn&) = delete;
  MemifReturn& operator=(const MemifReturn&) = delete;

  Pause& pause(uint16_t queue) noexcept { return pauses_[queue]; }
  // The link is down. From any thread, as often as one likes.
  void wake() noexcept {
    if (!looks_.exchange(true)) call();
  }

 private:
  static void look_of(void* self) noexcept;
  void call() noexcept;
  void look() noexcept;
  void pause() noexcept;
  bool all_agreed() const noexcept;
  void restart() noexcept;
  void resume() noexcept;

  const Device& device_;
  const std::string socket_;
  const std::unique_ptr<Pause[]> pauses_;  // of each queue
  uint32_t number_ = 0;                    // of the last pause
  bool pausing_ = false;
  bool was_up_ = false;  // since the last start
  std::atomic<bool> looks_{true};
};

}  // namespace weft::port::dpdk
